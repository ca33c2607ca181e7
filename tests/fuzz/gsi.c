// SPDX-License-Identifier: MIT
/* QP 1 of a host: packets of any form to it, from any address to any, and what comes back of those
 * that it has sent. Beside our process, with ports of its own, the host has others: with ports,
 * with names, with no room. Time is the input's.
 *
 * A packet that is no MAD of connection management reaches nobody. One that is reaches one process,
 * whole, with the addresses of its header, in the order in which they came. If there is no such
 * process and it is a question, it is answered: once, by what belongs to it, to where it came from,
 * a thousand times a second. Nothing is left of it. Each fate is checked against a second opinion,
 * fate(). */
#include "util/clock.h"

static uint64_t time_now(void);
#define clock_now time_now /* of the allowances */
#include "engine/gsi/gsi.c"
#include "engine/gsi/gsi_names.c"
#undef clock_now

#include <fcntl.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <sys/socket.h>
#include "engine/gsi/gsi_say.h"
#include "fuzz.h"
#include "link/fault.h"
#include "lo.h"
#include "peers/host_state.h"
#include "util/fork.h"
#include "util/guard.h"

enum {
	SLOT = 3, /* ours */
	NAMED, /* has a name */
	OWN_NAME, /* another user has the name: it has one of its own user's */
	CROWDED, /* nobody can connect to it */
	LIAR, /* has the name of a slot that it does not have */
	SLOTS,
	HOSTS = 8,
	DUE = 128, /* that our process has not heard yet */
	KINDS = CM_APR - CM_REQ + 1,
	QUOTED = 512,
	PAUSE = 3, /* s: after that every allowance is a new one */
};

/* What becomes of a packet. From TO_PORT and TO_SLOT on: the process with that port, that slot. */
enum outcome { DROPPED, NO_ROOM, NO_PROCESS, TO_US, TO_PORT, TO_SLOT = 64 };

const struct fuzz_target fuzz_target = { "gsi", 1024, 4000 };

/* 0 is ours; 5 and 6 are groups. */
static const union ibv_gid hosts[HOSTS] = {
	{ .raw = { [10] = 0xff, 0xff, 10, 9, 0, 1 } },
	{ .raw = { [10] = 0xff, 0xff, 10, 9, 0, 2 } },
	{ .raw = { [10] = 0xff, 0xff, 10, 9, 0, 3 } },
	{ .raw = { 0xfd, [15] = 1 } },
	{ .raw = { 0xfe, 0x80, [15] = 2 } },
	{ .raw = { 0xff, 0x0e, [15] = 1 } },
	{ .raw = { [10] = 0xff, 0xff, 239, 1, 1, 1 } },
};

enum owner { US, OTHER, FULL };

static const struct {
	struct gsi_port at;
	enum owner owner;
} ports[] = {
	{ { RDMA_PS_TCP, 7471, GSI_ADDRESS, { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 1 } } }, US },
	{ { RDMA_PS_TCP, 7472, GSI_ANY4, { .raw = { 0 } } }, US },
	{ { RDMA_PS_TCP, 7473, GSI_ADDRESS, { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 1 } } },
	  OTHER },
	{ { RDMA_PS_UDP, 7471, GSI_ANY4, { .raw = { 0 } } }, OTHER },
	{ { RDMA_PS_TCP, 7474, GSI_ANY6, { .raw = { 0 } } }, OTHER },
	{ { RDMA_PS_TCP, 7475, GSI_ADDRESS, { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 1 } } }, FULL },
	{ { RDMA_PS_TCP, 7475, GSI_ANY4, { .raw = { 0 } } }, OTHER },
	{ { RDMA_PS_TCP, 7476, GSI_ADDRESS, { .raw = { [10] = 0xff, 0xff, 10, 9, 0, 1 } } }, FULL },
};
enum { PORTS = sizeof(ports) / sizeof(ports[0]) };

static struct {
	uint64_t now; /* ns */
	struct node n;
	struct host host;
	struct link here, net;
	struct dest dest;
	struct device device;
	struct counters counters;
	int port_fd[PORTS], slot_fd[SLOTS];
	int asked_fd[SLOTS]; /* connections without a message come there */
	int in; /* of what our process hears */
	bool busy; /* it takes nothing from the engine's thread */
	struct gsi_mad due[DUE];
	unsigned int n_due, heard;
	/* the network */
	uint8_t broken; /* 1: has no path, 2: has no room */
	unsigned int refs, sent;
	struct gsi_mad out; /* the last that was sent */
	struct link_return back;
	bool has_back;
	/* the second opinion on allowances */
	uint64_t second, answered, searched, missed[NUMBER_SLOTS];
} w;

static uint64_t time_now(void)
{
	return w.now;
}

/* --- the network --- */

static int take(struct dest *d, const struct seg *s, struct waiter *waiter)
{
	(void)d;
	(void)waiter;
	must(s->op == (SVC_UD | OP_SEND_ONLY) && s->dqpn == GSI_QPN && s->sqpn == GSI_QPN);
	must(s->qkey == (uint32_t)CM_QKEY && s->len == MAD_LEN && s->npieces == 1);
	if (w.broken & 2)
		return EAGAIN;
	memcpy(w.out.mad, (const void *)(uintptr_t)s->pieces[0].addr, MAD_LEN);
	w.sent++;
	return 0;
}

static void put(struct dest *d)
{
	(void)d;
	must(w.refs--);
}

static int open_net(struct link *l)
{
	(void)l;
	return 0;
}

static int dest(struct link *l, const struct link_path *to, struct dest **out)
{
	(void)l;
	must(to->lqpn == GSI_QPN && to->rqpn == GSI_QPN);
	if (w.broken & 1)
		return EHOSTUNREACH;
	w.out.from = to->net.local;
	w.out.to = to->net.remote;
	w.out.ifindex = to->ifindex;
	w.refs++;
	*out = &w.dest;
	return 0;
}

static int knock(struct link *l, const struct link_path *to)
{
	(void)l;
	(void)to;
	return 0;
}

static bool returned(struct link *l, struct link_return *out)
{
	bool has = w.has_back;

	(void)l;
	if (has)
		*out = w.back;
	w.has_back = false;
	return has;
}

/* --- the processes --- */

static void has_heard(const struct gsi_mad *m)
{
	must(w.heard < w.n_due && !memcmp(m, &w.due[w.heard], sizeof(*m)));
	w.heard++;
}

static void read_pair(void)
{
	struct gsi_mad m;

	while (recv(w.in, &m, sizeof(m), MSG_DONTWAIT) == sizeof(m))
		has_heard(&m);
}

static bool hear(const void *mads, unsigned int n)
{
	const struct gsi_mad *m = mads;

	if (w.busy)
		return false;
	read_pair();
	for (unsigned int i = 0; i < n; i++)
		has_heard(&m[i]);
	return true;
}

/* Our process has heard all that was for it. */
static void hears(bool busy)
{
	w.busy = busy;
	gsi_own_flush();
	read_pair();
	must(w.heard == w.n_due);
	w.heard = w.n_due = 0;
}

/* Who has a slot is asked of the kernel, by a connection. */
static void forget_who_asked(void)
{
	int conn;

	for (unsigned int i = 0; i < SLOTS; i++)
		while (w.asked_fd[i] >= 0 && (conn = accept(w.asked_fd[i], NULL, NULL)) >= 0)
			close(conn);
}

/* Of the crowded the sockets stay open: a listener has room for one connection, which has come. */
static void open_ports(void)
{
	int conn;

	for (int i = 0; i < PORTS; i++) {
		w.port_fd[i] = -1;
		if (ports[i].owner == US)
			continue;
		must(!gsi_name_bind(&ports[i].at, &w.port_fd[i]));
		must(!listen(w.port_fd[i], ports[i].owner == FULL ? 0 : GSI_BACKLOG));
		if (ports[i].owner != FULL)
			continue;
		must(!gsi_name_connect(&ports[i].at, &conn));
		w.port_fd[i] = -1;
	}
}

static void open_slots(void)
{
	int fd, conn;

	for (unsigned int i = 0; i < SLOTS; i++)
		w.slot_fd[i] = w.asked_fd[i] = -1;
	for (unsigned int i = NAMED; i <= CROWDED; i++)
		must(!host_name_bind(i, &w.asked_fd[i]));
	must(!gsi_process_bind(NAMED, &w.slot_fd[NAMED]));
	must(!host_name_bind_any(HOST_NAMES_ALL, "cm.process.5", &fd));
	must(OWN_NAME == 5 && !gsi_process_bind(OWN_NAME, &w.slot_fd[OWN_NAME]));
	must(!host_name_bind_any(HOST_NAMES_ALL, "cm.process.6", &fd) && !listen(fd, 0));
	must(CROWDED == 6 && !host_name_connect_any(HOST_NAMES_ALL, "cm.process.6", &conn));
	must(!gsi_process_bind(LIAR, &w.asked_fd[LIAR]));
}

static void start(void)
{
	static const struct link_ops ops = { .name = "test", .send = take, .put = put };
	static const struct link_net_ops net_ops = { .knock = knock, .returned = returned };

	setenv("SOFTHCA_LOG", "error", 0);
	must(!fork_init() && !guard_init());
	w.now = PAUSE * UINT64_C(1000000000);
	w.n.host = &w.host;
	w.n.kick_fd = w.n.epoll_fd = w.host.bell = w.host.epoll = -1;
	mutex_init(&w.n.lock);
	w.net = (struct link){ .name = "test", .open = open_net, .dest = dest, .net = &net_ops };
	w.dest = (struct dest){ .ops = &ops, .max_seg = MTU };
	links_add(&w.n, &w.here);
	links_add(&w.n, &w.net);
	w.n.networks = 1;
	lo_open(&hosts[0], &w.device.gids);
	w.device.hca.counters = &w.counters;
	w.n.devices[0] = &w.device;
	w.n.n_devices = 1;
	open_ports();
	open_slots();
}

/* The message by the connection that has come to @listener, the only one. */
static void came_to(int listener, struct gsi_mad *out)
{
	int conn = accept(listener, NULL, NULL);

	must(conn >= 0);
	must(recv(conn, out, sizeof(*out), MSG_DONTWAIT) == (ssize_t)sizeof(*out));
	must(!recv(conn, &(char){ 0 }, 1, MSG_DONTWAIT)); /* its end */
	close(conn);
	must(accept(listener, NULL, NULL) < 0);
}

/* --- the second opinion --- */

static bool is_group(const uint8_t *gid)
{
	static const uint8_t v4[12] = { [10] = 0xff, 0xff };

	return gid[0] == 0xff || (!memcmp(gid, v4, sizeof(v4)) && gid[12] >> 4 == 0xe);
}

static bool is_v4(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->raw[8] && !gid->raw[9] && gid->raw[10] == 0xff &&
	       gid->raw[11] == 0xff;
}

static bool is_mad(const struct seg *s)
{
	const uint8_t *m = s->data;
	struct grh g;

	if (!s->grh || grh_parse(s->grh, &g) || is_group(g.sgid) || is_group(g.dgid))
		return false;
	if (s->dqpn != 1 || s->op != (SVC_UD | OP_SEND_ONLY) || s->qkey != 0x80010000 || !m)
		return false;
	if (s->len != 256 || (s->pkey | 0x8000) != 0xffff)
		return false;
	return m[0] == 1 && m[1] == 7 && m[2] == 2 && m[3] == 3 && !m[16] && m[17] >= CM_REQ &&
	       m[17] <= CM_APR;
}

static bool allowed(uint64_t *taken, uint64_t limit)
{
	uint64_t second = w.now / 1000000000;

	if (second != w.second)
		w.answered = w.searched = 0;
	w.second = second;
	return (*taken)++ < limit;
}

static int to_port(uint64_t service, const union ibv_gid *to)
{
	uint64_t ps = service >> 16;
	int full = NO_PROCESS;

	for (int i = 0; i < PORTS; i++) {
		const struct gsi_port *p = &ports[i].at;
		bool here = p->any == GSI_ADDRESS ? !memcmp(&p->addr, to, sizeof(*to))
						  : (p->any == GSI_ANY4) == is_v4(to);

		if (p->ps != ps || p->port != (uint16_t)service || !here)
			continue;
		if (ports[i].owner != FULL)
			return ports[i].owner == US ? TO_US : TO_PORT + i;
		full = NO_ROOM;
	}
	return full;
}

/* By its name; else by one of its user's, of which 64 are looked for in a second, and none twice
 * within two. */
static int to_slot(uint32_t id)
{
	unsigned int slot = id >> 22;
	int without = slot == CROWDED ? NO_ROOM : NO_PROCESS;

	if (slot == SLOT)
		return TO_US;
	if (slot == NAMED)
		return TO_SLOT + NAMED;
	if (w.missed[slot] && w.now - w.missed[slot] < UINT64_C(2000000000))
		return without;
	if (!allowed(&w.searched, 64))
		return NO_ROOM;
	if (slot == OWN_NAME)
		return TO_SLOT + OWN_NAME;
	w.missed[slot] = w.now;
	return without;
}

static int fate(const struct seg *s, const struct gsi_mad *mad)
{
	const uint8_t *d = mad->mad + 24;

	if (!is_mad(s))
		return DROPPED;
	switch (mad->mad[17]) {
	case CM_REQ:
	case CM_SIDR_REQ:
		return to_port(get_be64(d + 8), &mad->to);
	case CM_SIDR_REP:
		return to_slot(get_be32(d));
	default:
		return to_slot(get_be32(d + 4));
	}
}

/* What a host says to @q, for which it has no process; 0: nothing. */
static uint8_t answer_to(uint8_t q)
{
	return q == CM_REQ ? CM_REJ : q == CM_SIDR_REQ ? CM_SIDR_REP : q == CM_DREQ ? CM_DREP : 0;
}

/* --- what happens --- */

/* @q is answered, if it has to be. */
static void is_answered(const struct gsi_mad *q, bool wanted)
{
	const uint8_t *d = q->mad + 24, *a = w.out.mad;
	uint8_t kind = wanted ? answer_to(q->mad[17]) : 0;
	unsigned int n = kind && allowed(&w.answered, 1000) && !w.broken;

	must(!w.refs && w.sent <= n && (w.sent == n || w.n.mad_faults));
	if (!w.sent)
		return;
	must(!memcmp(&w.out.to, &q->from, 16) && !memcmp(&w.out.from, &q->to, 16));
	must(w.out.ifindex == q->ifindex);
	must(a[17] == kind && !answer_to(a[17]) && !memcmp(a + 8, q->mad + 8, 8));
	if (kind == CM_SIDR_REP)
		must(!memcmp(a + 24, d, 4) && a[28] == 1);
	else
		must(!memcmp(a + 28, d, 4));
	if (kind == CM_DREP)
		must(!memcmp(a + 24, d + 4, 4));
	if (kind == CM_REJ)
		must(get_be16(a + 24 + 10) == 8 && !(a[32] >> 6));
}

/* How many of @p are readable now. A signal that is pending ends poll(): libFuzzer has a timer. */
static int readable(struct pollfd *p, nfds_t n)
{
	int got;

	do {
		got = poll(p, n, 0);
	} while (got < 0 && errno == EINTR);
	return got;
}

/* It came to @where and nowhere else. */
static void is_there(int where, const struct gsi_mad *mad)
{
	struct pollfd p[PORTS + SLOTS];
	struct gsi_mad m;

	for (int i = 0; i < PORTS; i++)
		p[i] = (struct pollfd){ .fd = w.port_fd[i], .events = POLLIN };
	for (int i = 0; i < SLOTS; i++)
		p[PORTS + i] = (struct pollfd){ .fd = w.slot_fd[i], .events = POLLIN };
	must(readable(p, PORTS + SLOTS) == (where >= TO_PORT));
	if (where < TO_PORT)
		return;
	came_to(where < TO_SLOT ? w.port_fd[where - TO_PORT] : w.slot_fd[where - TO_SLOT], &m);
	must(!memcmp(&m, mad, sizeof(m)));
}

static uint64_t counted(enum counter which)
{
	return counters_read(&w.counters, which);
}

/* The addresses of @mad are those of the header. */
static void packet(const struct seg *s, const struct gsi_mad *mad)
{
	uint64_t in = counted(COUNTER_PORT_RCV_PACKETS), out = counted(COUNTER_PORT_XMIT_PACKETS);
	bool ours = !memcmp(&mad->to, &hosts[0], 16);
	int where = fate(s, mad);

	w.sent = 0;
	if (where == TO_US)
		w.due[w.n_due++] = *mad;
	gsi_packet(&w.n.link[1], s);
	must(w.heard <= w.n_due);
	is_there(where, mad);
	is_answered(mad, where == NO_PROCESS);
	must(counted(COUNTER_PORT_RCV_PACKETS) - in == (ours && where != DROPPED));
	if (!w.n.mad_faults)
		must(counted(COUNTER_PORT_XMIT_PACKETS) - out == (ours ? w.sent : 0));
	if (w.n_due == DUE)
		hears(false);
}

static uint64_t service(struct fuzz_bytes *b)
{
	uint8_t which = (uint8_t)fuzz_take(b, 1);
	uint64_t id = (uint64_t)ports[which % PORTS].at.ps << 16 | ports[which % PORTS].at.port;

	if (which & 32)
		id ^= fuzz_take(b, 8);
	return id;
}

static void message(struct fuzz_bytes *b, struct gsi_mad *out)
{
	uint8_t kind = (uint8_t)fuzz_take(b, 1), where = (uint8_t)fuzz_take(b, 1);
	uint8_t ids = (uint8_t)fuzz_take(b, 1);
	struct cm_msg m = { .kind = (uint16_t)(CM_REQ + kind % KINDS),
			    .tid = ids,
			    .local_id = (ids & 7U) << 22 | 7,
			    .remote_id = (ids >> 4 & 7U) << 22 | 9,
			    .service_id = service(b) };

	if (where & 64)
		m.remote_id = m.local_id = (uint32_t)fuzz_take(b, 4);
	*out = (struct gsi_mad){ .magic = GSI_MAGIC,
				 .net = 1,
				 .ifindex = where >> 7,
				 .from = hosts[where % HOSTS],
				 .to = hosts[where / HOSTS % HOSTS] };
	must(!cm_build(&m, out->mad));
}

static void change(struct fuzz_bytes *b, uint8_t *at, size_t len)
{
	size_t first = fuzz_take(b, 2) % (len ? len : 1), n;
	const uint8_t *run;

	n = fuzz_take_run(b, fuzz_take(b, 1) % 32, &run);
	for (size_t i = 0; i < n && first + i < len; i++)
		at[first + i] ^= run[i];
}

/* By @how: most are as they should be. */
static void spoil(struct fuzz_bytes *b, uint8_t how, struct seg *s)
{
	switch (how) {
	case 1:
		s->qkey = (uint32_t)fuzz_take(b, 4);
		break;
	case 2:
		s->pkey = (uint16_t)fuzz_take(b, 2);
		break;
	case 3:
		s->op = (uint8_t)fuzz_take(b, 1);
		break;
	case 4:
		s->dqpn = (uint32_t)fuzz_take(b, 3);
		break;
	case 5:
		s->len = (uint32_t)fuzz_take(b, 2) % (2 * MAD_LEN);
		break;
	case 6:
		s->data = NULL;
		break;
	case 7:
		s->grh = NULL;
		break;
	default:
		break;
	}
}

static void arrives(struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1) % 16, area[GRH_LEN], *data;
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	struct seg s = { .op = SVC_UD | OP_SEND_ONLY,
			 .pkey = how & 1 ? 0x7fff : 0xffff,
			 .dqpn = GSI_QPN,
			 .qkey = (uint32_t)CM_QKEY,
			 .len = MAD_LEN,
			 .grh = area };
	struct gsi_mad mad;

	message(b, &mad);
	memcpy(g.sgid, &mad.from, 16);
	memcpy(g.dgid, &mad.to, 16);
	grh_build(&g, area);
	if (how == 8)
		change(b, area, sizeof(area));
	if (how == 9 || how == 10)
		change(b, mad.mad, how == 9 ? 24 : MAD_LEN);
	if (!grh_parse(area, &g)) {
		memcpy(&mad.from, g.sgid, 16);
		memcpy(&mad.to, g.dgid, 16);
	}
	s.ifindex = mad.ifindex;
	spoil(b, how, &s);
	data = calloc(1, s.len + 1);
	must(data);
	memcpy(data, mad.mad, s.len < MAD_LEN ? s.len : MAD_LEN);
	if (how != 6)
		s.data = data;
	packet(&s, &mad);
	free(data);
}

/* A packet of ours did not arrive, and its head comes back, as much as ICMP quotes. */
static void comes_back(struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1);
	struct gsi_mad mad, out;
	struct pkt p = { .opcode = SVC_UD | OP_SEND_ONLY,
			 .pkey = 0xffff,
			 .dqpn = how & 1 ? 5 : GSI_QPN,
			 .qkey = (uint32_t)CM_QKEY,
			 .payload = mad.mad,
			 .payload_len = how & 2 ? fuzz_take(b, 2) % MAD_LEN : MAD_LEN };
	int error = -1;

	message(b, &mad);
	w.back = (struct link_return){ .net = { mad.from, mad.to },
				       .ifindex = mad.ifindex,
				       .error = how & 4 ? 0 : ECONNREFUSED };
	must(!wire_build(&p, w.back.packet, QUOTED, &w.back.len));
	change(b, w.back.packet, w.back.len);
	if (how & 8)
		w.back.len = fuzz_take(b, 2) % (QUOTED + 1);
	w.has_back = true;
	if (!gsi_returned(&w.n, &out, &error))
		return;
	must(w.back.error == error && error && !wire_parse(w.back.packet, w.back.len, &p));
	must(p.dqpn == 1 && p.payload_len == MAD_LEN && !memcmp(out.mad, p.payload, MAD_LEN));
	must(!memcmp(&out.from, &mad.from, 16) && !memcmp(&out.to, &mad.to, 16));
	must(out.ifindex == mad.ifindex && !gsi_returned(&w.n, &out, &error));
}

/* By a connection of this host, to a process that hears it, or has ended. */
static void says_here(struct gsi_mad *mad, bool ended)
{
	uint64_t in = counted(COUNTER_PORT_RCV_PACKETS);
	bool counts = !mad->net && !memcmp(&mad->to, &hosts[0], 16);
	struct gsi_hearing h;
	struct gsi_mad got;
	int pair[2], err;

	must(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	if (ended)
		close(pair[1]);
	err = gsi_way_say(&w.n, pair[0], mad);
	close(pair[0]);
	must(w.n.mad_faults || err == (ended ? ENETUNREACH : 0));
	if (ended)
		return;
	mad->lossy = w.n.mad_faults ? 1 : 0;
	gsi_way_hears(&h);
	if (recv(pair[1], &got, sizeof(got), MSG_DONTWAIT) == (ssize_t)sizeof(got)) {
		must(!memcmp(&got, mad, sizeof(got)));
		gsi_way_heard(&w.n, &h, &got);
		must(counted(COUNTER_PORT_RCV_PACKETS) - in == counts);
	} else {
		must(mad->lossy);
	}
	must(!recv(pair[1], &got, sizeof(got), MSG_DONTWAIT));
	close(pair[1]);
}

/* Our process sends one, to a host and to a process of this one. */
static void says(struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1);
	struct gsi_mad mad;
	bool softhca;
	int err;

	message(b, &mad);
	w.sent = 0;
	err = gsi_send(&w.n, &mad, how & 1 ? &softhca : NULL);
	must(w.n.mad_faults || (w.sent == !w.broken && !err == !w.broken));
	must(!w.sent || !memcmp(w.out.mad, mad.mad, MAD_LEN));
	gsi_knock(&w.n, &mad, how & 2);
	must(!w.refs);
	mad.net = how >> 3 & 1;
	says_here(&mad, how & 4);
}

static void happen(struct fuzz_bytes *b)
{
	switch (fuzz_take(b, 1) % 16) {
	case 0:
		w.now += fuzz_take(b, 2) * 1000000;
		break;
	case 1:
		hears(fuzz_take(b, 1) & 1);
		break;
	case 2:
		comes_back(b);
		break;
	case 3:
		says(b);
		break;
	case 4:
		w.broken = (uint8_t)fuzz_take(b, 1) & 3;
		break;
	case 5: /* to repeated requests */
		for (uint64_t n = fuzz_take(b, 2) % 1200; n; n--)
			must(gsi_may_answer() == allowed(&w.answered, 1000));
		break;
	default:
		arrives(b);
	}
}

static void begin(struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1);
	const struct fault_config faults = { .loss = 0.3, .corrupt = 0.3, .seed = how };

	if (!w.device.gids)
		start();
	w.now = (w.now / 1000000000 + PAUSE) * 1000000000;
	w.broken = 0;
	must(!gsi_own_open(SLOT, how & 1 ? hear : NULL, &w.in));
	gsi_own_keep();
	for (int i = 0; i < PORTS; i++)
		if (ports[i].owner == US)
			gsi_own_port(&ports[i].at, true);
	if (how & 2)
		must(!fault_dice_make(&faults, &w.n.mad_faults));
}

static void end(void)
{
	hears(false);
	forget_who_asked();
	for (int i = 0; i < PORTS; i++)
		gsi_own_port(&ports[i].at, false);
	gsi_own_close();
	close(w.in);
	gsi_way_end(&w.n);
	w.n.mad_faults = NULL;
}

/* A descriptor that is free now. */
static int next_fd(void)
{
	int fd = fcntl(0, F_DUPFD_CLOEXEC, 0);

	close(fd);
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	int fd;

	begin(&b);
	fd = next_fd();
	while (b.left)
		happen(&b);
	must(next_fd() == fd);
	end();
	return 0;
}
