// SPDX-License-Identifier: MIT
#include "cm/cm_arrive.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cm/cm_addr.h"
#include "cm/cm_blame.h"
#include "cm/cm_event.h"
#include "cm/cm_id.h"
#include "cm/cm_port.h"
#include "cm/cm_talk.h"
#include "cm/cm_watch.h"
#include "engine/gsi/gsi_way.h"
#include "net/gid.h"
#include "obs/explain.h"
#include "peers/contact_peer.h"
#include "util/clock.h"

enum { PATH_MTU_MAX = 5, SIDR_REJECTED = 2, IP_PS_MASK = 0xffff };

/* A connection that has made no id yet: nothing has come, or a request for which there was no room.
 * It has a descriptor, so it must not be silent for long, and another user's processes may have
 * few. */
struct guest {
	struct cm_watch watch;
	struct cm_waiting who; /* a stranger speaks for itself alone */
	struct timer patience;
};

/* For a first message, which leaves right behind connect(); until a request comes again. */
#define SILENCE_NS UINT64_C(2000000000)
#define REPEAT_NS  UINT64_C(10000000000)
/* Of a name, until there may be a descriptor again. */
#define REST_NS UINT64_C(10000000)
/* Of the descriptors that a process may have, those for all strangers, of one user, that have not
 * asked yet; as many for requests that the program has not accepted. */
enum { FOR_STRANGERS = 8, FOR_EACH = 32 };
enum {
	OWN_AT_ONCE = 64, /* messages, before others have their turn */
	OWN_BEFORE = 16, /* the same in the engine's thread */
};

/* A request on its way to a new id. */
struct request {
	const struct gsi_mad *mad;
	const struct cm_msg *m;
	struct cm_ip ip;
	struct sockaddr_storage from, to; /* by its header */
	struct cm_way way;
	uint64_t key, qp_key; /* in cm.requests, cm.qpns; 0: none */
	struct guest *guest; /* NULL: it came through a network */
};

/* --- refusals --- */

static void reply(const struct request *r, struct cm_msg *a)
{
	struct gsi_mad out = { .magic = GSI_MAGIC,
			       .net = r->mad->net,
			       .ifindex = r->mad->ifindex,
			       .from = r->mad->to,
			       .to = r->mad->from };

	if (r->mad->net && !gsi_may_answer())
		return;
	a->tid = r->m->tid;
	cm_build(a, out.mad);
	if (r->mad->net)
		gsi_send(cm.node, &out, NULL);
	else
		gsi_way_say(cm.node, r->guest->watch.fd, &out);
}

static void reject(const struct request *r, uint16_t rej)
{
	struct cm_msg a = { .kind = CM_REJ, .remote_id = r->m->local_id, .reason = rej };

	if (r->m->kind == CM_SIDR_REQ) {
		a.kind = CM_SIDR_REP;
		a.local_id = r->m->local_id;
		a.reason = rej == CM_REJ_SERVICE ? CM_SIDR_SERVICE : SIDR_REJECTED;
	}
	if (rej == CM_REJ_GID) {
		a.info_len = 16;
		memcpy(a.info, r->mad->to.raw, 16);
	}
	reply(r, &a);
}

/* And says why. @of_type: as in cm_blame.h. */
static void refuse_it(const struct request *r, uint16_t rej, bool of_type)
{
	struct sockaddr_storage from, to = { .ss_family = AF_INET };

	cm_addr_of_gid(&r->mad->from, 0, 0, &from);
	cm_addr_set_port(&to, (uint16_t)r->m->service_id);
	cm_blame_refusal(&from, &to, rej, of_type);
	reject(r, rej);
}

/* --- requests --- */

/* A link-local address is one of the interface of @r. */
static bool exists(const struct request *r, const union ibv_gid *gid)
{
	struct sockaddr_storage a;

	cm_addr_of_gid(gid, 0, r->mad->ifindex, &a);
	return cm_addr_exists(&a);
}

/* Programs may look at the peer's address before they accept. */
static bool is_of_this_host(const struct request *r)
{
	union ibv_gid from;

	cm_addr_gid(&r->from, &from);
	return exists(r, &from) && exists(r, &r->mad->from);
}

/* The header's addresses are only what the sender says; those of the packet get the answers. Each
 * stack writes the same into both. */
static bool is_of_its_packet(const struct request *r)
{
	union ibv_gid from, to;

	cm_addr_gid(&r->from, &from);
	cm_addr_gid(&r->to, &to);
	return !memcmp(&from, &r->mad->from, sizeof(from)) && !memcmp(&to, &r->mad->to, sizeof(to));
}

/* On this host a link-local address may be another interface's than the sender's. */
static int find_device(struct request *r)
{
	const union ibv_gid *own = &r->mad->to;
	int err = cm_addr_gid_device(own, r->mad->ifindex, &r->way);

	return err && !r->mad->net ? cm_addr_gid_device(own, 0, &r->way) : err;
}

/* 0 or the reason of the REJ. */
static uint16_t check(struct request *r)
{
	const struct cm_msg *m = r->m;
	bool sidr = m->kind == CM_SIDR_REQ;
	union ibv_gid own = r->mad->to;

	if (cm_ip_parse(m->private_data, m->private_len, &r->ip))
		return CM_REJ_CONSUMER;
	cm_addr_of_ip(r->ip.version, r->ip.from, r->ip.port, &r->from);
	cm_addr_of_ip(r->ip.version, r->ip.to, (uint16_t)m->service_id, &r->to);
	if (cm_addr_any(&r->from) || cm_addr_group(&r->from) || cm_addr_group(&r->to))
		return CM_REJ_CONSUMER;
	if (r->mad->net && (cm_addr_loop(&r->from) || cm_addr_loop(&r->to)))
		return CM_REJ_CONSUMER;
	if (r->guest && r->guest->who.stranger && !is_of_this_host(r))
		return CM_REJ_CONSUMER;
	if (!sidr && (memcmp(m->path[0].remote_gid, own.raw, 16) ||
		      memcmp(m->path[0].local_gid, r->mad->from.raw, 16)))
		return CM_REJ_GID;
	if (r->mad->net && !is_of_its_packet(r))
		return CM_REJ_CONSUMER;
	if (find_device(r))
		return CM_REJ_GID;
	if (!sidr && (m->path_mtu < 1 || m->path_mtu > PATH_MTU_MAX))
		return CM_REJ_MTU;
	return !sidr && m->qpn < CM_FIRST_QPN ? CM_REJ_CONSUMER : 0;
}

static int qp_type_of(const struct cm_msg *m)
{
	if (m->kind == CM_SIDR_REQ)
		return IBV_QPT_UD;
	return m->transport == 3 && m->ext_transport == 1 ? IBV_QPT_XRC_RECV
	       : m->transport == 1			  ? IBV_QPT_UC
							  : IBV_QPT_RC;
}

static void fill_in(struct cm_id *id, const struct request *r)
{
	const struct cm_msg *m = r->m;

	id->phase = PHASE_CONNECT;
	id->muted = true;
	id->src = r->to;
	id->dst = r->from;
	id->peer = *m;
	id->way = r->way;
	id->way.net = r->mad->net;
	id->way.dgid = r->mad->from;
	id->quick = r->mad->lossy;
	id->responder_resources = m->initiator_depth;
	id->initiator_depth = m->responder_resources;
	id->retry_count = m->retry_count;
	id->rnr_retry = m->rnr_retry;
	if (m->kind == CM_SIDR_REQ)
		return;
	id->way.ack_timeout = m->path[0].ack_timeout;
	id->way.sl = m->path[0].sl;
	id->way.tclass = m->path[0].tclass;
	id->way.flow_label = m->path[0].flow_label;
	if (m->path_mtu < id->way.mtu)
		id->way.mtu = m->path_mtu;
}

/* Whether one more of that user may wait beside @others. */
static bool admits(const struct list *others, uid_t uid, const char *what)
{
	struct rlimit lim = { RLIM_INFINITY, RLIM_INFINITY };
	unsigned int all = 0, each = 0;
	static uint64_t times;
	struct list *pos;

	list_for_each(pos, others)
	{
		const struct cm_waiting *w = container_of(pos, struct cm_waiting, node);

		all += w->stranger;
		each += w->stranger && w->uid == uid;
	}
	getrlimit(RLIMIT_NOFILE, &lim);
	if (all < lim.rlim_cur / FOR_STRANGERS && each < lim.rlim_cur / FOR_EACH)
		return true;
	if (explain_due(++times))
		reason("connection management: a %s of user id %u refused, the %luth of "
		       "this kind: that user has %u that wait, all others %u; accept requests, "
		       "end processes of that user, or raise ulimit -n",
		       what, (unsigned int)uid, (unsigned long)times, each, all - each);
	return false;
}

static int put_key(struct hash *h, uint64_t key, struct cm_id *id, uint64_t *own)
{
	int err = key ? hash_put(h, key, id) : 0;

	*own = err ? 0 : key;
	return err;
}

/* Into the tables by which later messages find it. */
static int enter(struct cm_id *id, const struct request *r)
{
	int err = put_key(&cm.requests, r->key, id, &id->request_key);

	if (!err)
		err = put_key(&cm.qpns, r->qp_key, id, &id->qp_key);
	if (!err && r->guest) {
		id->conn = r->guest->watch;
		r->guest->watch = (struct cm_watch){ .fd = -1 };
		id->requester.uid = r->guest->who.uid;
		id->requester.stranger = r->guest->who.stranger;
		list_add(&cm.requesters, &id->requester.node);
		err = cm_talk_connected(id);
	}
	return err;
}

/* The id of a request and the event that tells of it. An errno: no memory. */
static int make(struct cm_id *listener, const struct request *r, struct cm_id **made,
		struct cm_event **told)
{
	struct cm_event *e;
	struct cm_id *id;
	int err = cm_id_new(listener->channel, listener->ps, qp_type_of(r->m), &id);

	if (err)
		return err;
	fill_in(id, r);
	e = cm_event_new(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	err = e ? enter(id, r) : ENOMEM;
	if (err) {
		free(e);
		cm_id_free(id);
		return err;
	}
	*made = id;
	*told = e;
	return 0;
}

/* EAGAIN: no room, the peer asks again. */
static int take_in(struct cm_id *listener, const struct request *r)
{
	struct cm_event *e;
	struct cm_out out;
	struct cm_id *id;

	if (listener->pending < listener->backlog && r->guest && r->guest->who.stranger &&
	    !admits(&cm.requesters, r->guest->who.uid, "request"))
		return EAGAIN;
	if (listener->pending >= listener->backlog || make(listener, r, &id, &e)) {
		cm_blame_wait(&r->from, listener);
		return EAGAIN;
	}
	if (r->m->kind == CM_SIDR_REQ) /* the question alone names it */
		hash_del(&cm.by_id, id->fsm.local_id);
	cm_fsm_requested(&id->fsm, r->m, &out);
	id->timer.fire = NULL;
	id->listener = listener;
	listener->pending++;
	e->news.id = id;
	cm_talk_param(id, r->m, &e->news.param);
	cm_event_queue(e);
	return 0;
}

/* Two senders may choose numbers that make one key. */
static bool same_end(const struct cm_id *id, const struct request *r)
{
	return !r->mad->net || !memcmp(&id->way.dgid, &r->mad->from, sizeof(r->mad->from));
}

/* The QP is one of a living connection: an earlier process has ended there unnoticed. */
static bool is_stale(const struct request *r)
{
	struct cm_id *old = r->qp_key ? hash_get(&cm.qpns, r->qp_key) : NULL;
	struct cm_out out;

	if (!old || !same_end(old, r))
		return false;
	refuse_it(r, CM_REJ_STALE, false);
	if (!cm_fsm_disconnect(&old->fsm, clock_now(), &out))
		cm_talk(old, &out);
	return true;
}

/* EAGAIN: the peer has to ask again; else it is done. */
static int request(struct request *r)
{
	struct cm_id *listener, *known = r->key ? hash_get(&cm.requests, r->key) : NULL;
	uint32_t ps = (uint32_t)(r->m->service_id >> 16);
	uint16_t rej;
	bool of_type;

	if (known) {
		if (same_end(known, r) && (!r->mad->net || gsi_may_answer()))
			cm_talk_take(known, r->m);
		return 0;
	}
	rej = check(r);
	listener = rej == CM_REJ_CONSUMER ? NULL : cm_port_listener(ps, &r->to);
	if (!rej && !listener)
		rej = CM_REJ_SERVICE;
	of_type = !rej && listener->qp_type != qp_type_of(r->m);
	if (of_type)
		rej = CM_REJ_CONSUMER;
	if (!rej && is_stale(r))
		return 0;
	if (rej) {
		refuse_it(r, rej, of_type);
		return 0;
	}
	return take_in(listener, r);
}

/* --- from a network --- */

/* Copies of these may come when their conversation is over, and say nothing new. */
static bool may_be_late(uint16_t kind)
{
	return kind == CM_DREP || kind == CM_SIDR_REP || kind == CM_MRA || kind == CM_REJ;
}

static struct cm_id *addressee(const struct gsi_mad *mad, const struct cm_msg *m)
{
	struct cm_id *id;
	uint64_t guid;

	if (m->kind == CM_SIDR_REP)
		id = hash_get(&cm.by_id, m->local_id);
	else if (m->kind == CM_REJ && !m->remote_id && m->info_len >= sizeof(guid)) {
		memcpy(&guid, m->info, sizeof(guid));
		id = hash_get(&cm.requests, cm_id_request_key(&mad->from, guid, m->local_id));
	} else
		id = hash_get(&cm.by_id, m->remote_id);
	if (id && id->way.net && !memcmp(&id->way.dgid, &mad->from, sizeof(mad->from)))
		return id;
	if (m->kind != CM_DREQ && (id || !may_be_late(m->kind)))
		cm_blame_stray(&mad->from, m, id);
	return NULL;
}

static void from_network(const struct gsi_mad *mad, const struct cm_msg *m)
{
	struct request r = { .mad = mad, .m = m };
	struct cm_id *id;

	switch (m->kind) {
	case CM_REQ:
		r.key = cm_id_request_key(&mad->from, m->ca_guid, m->local_id);
		r.qp_key = cm_id_qp_key(&mad->from, m->ca_guid, m->qpn);
		request(&r);
		return;
	case CM_SIDR_REQ:
		r.key = cm_id_question_key(&mad->from, m->local_id);
		request(&r);
		return;
	default:
		id = addressee(mad, m);
	}
	if (id) {
		cm_talk_take(id, m);
	} else if (m->kind == CM_DREQ) { /* as if it had ended long ago */
		struct cm_msg a = { .kind = CM_DREP,
				    .local_id = m->remote_id,
				    .remote_id = m->local_id };

		reply(&r, &a);
	}
}

/* --- connections to our names --- */

static void guest_free(struct guest *g)
{
	cm_timer(&g->patience, UINT64_MAX);
	list_del(&g->who.node);
	cm_unwatch(&g->watch);
	free(g);
}

static void too_silent(struct timer *t, uint64_t now)
{
	static uint64_t times;
	struct guest *g = container_of(t, struct guest, patience);

	(void)now;
	if (explain_due(++times))
		reason("connection management: a process of user id %u has connected and asks "
		       "nothing; that connection is closed, the %luth of this kind",
		       (unsigned int)g->who.uid, (unsigned long)times);
	guest_free(g);
}

/* What it has said is done. False: it has no more to say here. */
static bool guest_stays(struct guest *g)
{
	struct gsi_hearing hearing;
	struct cm_msg m = { 0 };
	struct gsi_mad mad;
	int err;

	gsi_way_hears(&hearing);
	err = cm_talk_read(g->watch.fd, &mad, &m);
	if (!err && mad.net) {
		if (!g->who.stranger)
			from_network(&mad, &m);
	} else if (!err && (m.kind == CM_REQ || m.kind == CM_SIDR_REQ)) {
		struct request r = { .mad = &mad, .m = &m, .guest = g };

		err = request(&r);
		if (g->watch.fd >= 0 && gsi_way_loses(cm.node))
			err = EAGAIN; /* the answer may be lost: the request comes again */
	}
	if (m.kind)
		gsi_way_heard(cm.node, &hearing, &mad);
	if (err == EAGAIN && m.kind)
		cm_timer(&g->patience, clock_now() + REPEAT_NS);
	return err == EAGAIN;
}

static void guest_ready(struct cm_watch *w)
{
	struct guest *g = container_of(w, struct guest, watch);

	if (!guest_stays(g))
		guest_free(g);
}

/* Its other end asks again. */
static void close_busy(int fd)
{
	const uint8_t busy = GSI_BUSY;
	ssize_t n = send(fd, &busy, sizeof(busy), MSG_DONTWAIT | MSG_NOSIGNAL);

	(void)n; /* < 0: that end has gone */
	close(fd);
}

/* Also in a program that has taken /dev or open() from itself. */
static bool has_spare(void)
{
	if (cm.spare_fd < 0)
		cm.spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (cm.spare_fd < 0)
		cm.spare_fd = fcntl(cm.kick_fd, F_DUPFD_CLOEXEC, 0);
	return cm.spare_fd >= 0;
}

static void rested(struct timer *t, uint64_t now)
{
	struct list *pos;

	(void)t;
	(void)now;
	list_for_each(pos, &cm.names)
		cm_watch_switch(&container_of(pos, struct cm_name, node)->watch, true);
	cm_watch_switch(&cm.process, true);
}

/* The name stays ready, and nothing can be done about it. */
static void rest(const struct cm_watch *name)
{
	cm_watch_switch(name, false);
	cm.rest.fire = rested;
	cm_timer(&cm.rest, clock_now() + REST_NS);
}

/* Without descriptors the connection is taken and closed, or its name would stay ready for ever. */
static void turn_away(int name_fd)
{
	static uint64_t times;
	int fd;

	close(cm.spare_fd);
	cm.spare_fd = -1;
	fd = accept4(name_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd >= 0)
		close_busy(fd);
	if (explain_due(++times))
		reason("connection management: a connection has to come again, the %luth of this "
		       "kind: no descriptor is left; raise ulimit -n",
		       (unsigned long)times);
	has_spare();
}

static void name_ready(struct cm_watch *w)
{
	struct trust_name who;
	struct guest *g;
	int fd;

	if (!has_spare()) {
		rest(w);
		return;
	}
	fd = accept4(w->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE)
			turn_away(w->fd);
		return;
	}
	g = NULL;
	if (!contact_user(fd, &who) && (!who.stranger || admits(&cm.guests, who.uid, "connection")))
		g = calloc(1, sizeof(*g));
	if (!g) {
		close_busy(fd);
		return;
	}
	g->watch.fd = fd;
	g->who.stranger = who.stranger;
	g->who.uid = who.uid;
	list_add(&cm.guests, &g->who.node);
	timer_init(&g->patience, too_silent);
	cm_timer(&g->patience, clock_now() + SILENCE_NS);
	/* Most have asked already, and are not watched as guests. */
	if (!guest_stays(g) || cm_watch(&g->watch, guest_ready))
		guest_free(g);
}

/* Takes what waits in the pair. False: there may be more than @most messages. */
static bool catch_up(unsigned int most)
{
	struct gsi_mad mad;
	struct cm_msg m;
	int err;

	do {
		err = cm_talk_read(cm.own.fd, &mad, &m);
		if (!err)
			from_network(&mad, &m);
	} while (!err && --most);
	return err == EAGAIN || err == ENOTCONN;
}

static void own_ready(struct cm_watch *w)
{
	(void)w;
	catch_up(OWN_AT_ONCE);
}

/* The engine's thread must not wait for a call: the thread of connection management does. */
static bool hear(const void *mads, unsigned int n)
{
	const struct gsi_mad *mad = mads;
	struct cm_msg m;
	bool in_order; /* nothing that came before waits */

	if (mutex_trylock(&cm.lock))
		return false;
	in_order = !cm.own.serial || catch_up(OWN_BEFORE);
	for (unsigned int i = 0; in_order && i < n; i++)
		if (!cm_parse(mad[i].mad, MAD_LEN, &m))
			from_network(&mad[i], &m);
	mutex_unlock(&cm.lock);
	return in_order;
}

int cm_arrive_begin(void)
{
	int err;

	if (!cm.own.serial && !gsi_own_open(cm.slot, hear, &cm.own.fd)) {
		err = cm_watch(&cm.own, own_ready);
		if (err) {
			cm_unwatch(&cm.own);
			gsi_own_close();
			return err;
		}
	}
	if (cm.process.serial)
		return 0;
	cm_port_on_guest(name_ready);
	err = gsi_process_bind(cm.slot, &cm.process.fd);
	if (err)
		return 0; /* names are refused here: this process talks to itself and to networks */
	return cm_watch(&cm.process, name_ready);
}
