// SPDX-License-Identifier: MIT
/* Flows of synchronous ids: requests, answers and ends between two endpoints, of which one waits in
 * a thread of its own; and SRQs of ids. */
#include "contract.h"
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of @call, which has just set errno if it failed. */
static void say_answer(struct crew *c, const char *call, int ret)
{
	fprintf(c->out, " | %s %s", call, ret ? errno_name(errno) : "0");
	errno = 0;
}

enum { PATIENCE_S = 60 }; /* with one flow, whose ends wait for each other */

static void say_kept(struct crew *c, const struct rdma_cm_id *id)
{
	c->where = NULL;
	if (id->event)
		say_event(c, id->event);
}

/* Level-triggered: something is there to be fetched. */
static void await(const struct rdma_event_channel *ch)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };

	must(poll(&p, 1, 20000) == 1, "poll");
}

/* --- a call in a thread --- */

struct later {
	pthread_t thread;
	struct rdma_cm_id *id;
	struct rdma_conn_param *param;
	int (*call)(struct rdma_cm_id *id, struct rdma_conn_param *p);
	int ret, err;
};

static void *run(void *arg)
{
	struct later *l = arg;

	errno = 0;
	l->ret = l->call(l->id, l->param);
	l->err = errno;
	return NULL;
}

static void start(struct later *l)
{
	must(!pthread_create(&l->thread, NULL, run, l), "pthread_create");
}

static void finish(struct crew *c, struct later *l, const char *call)
{
	must(!pthread_join(l->thread, NULL), "pthread_join");
	errno = l->err;
	say_answer(c, call, l->ret);
	say_kept(c, l->id);
}

static int disconnect(struct rdma_cm_id *id, struct rdma_conn_param *none)
{
	(void)none;
	return rdma_disconnect(id);
}

/* --- two endpoints --- */

static struct rdma_cm_id *make_ep(struct crew *c, enum side side, struct ibv_qp_init_attr *attr)
{
	union address at = own_address(c->kind->v6, side == LISTENER ? 0 : listener_port(c));
	struct kind k = *c->kind;
	struct rdma_addrinfo info;

	if (k.xrc && side == LISTENER)
		k.type = IBV_QPT_XRC_RECV;
	info = ep_info(&k, &at, side == LISTENER);
	must(!rdma_create_ep(&c->id[side], &info, NULL, attr), "rdma_create_ep");
	c->id[side]->context = c;
	return c->id[side];
}

static void meet(struct crew *c, const struct kind *k)
{
	struct ibv_qp_init_attr attr = ep_attr(), other = ep_attr();

	*c = (struct crew){ .kind = k, .out = stdout };
	must(!rdma_listen(make_ep(c, LISTENER, k->has_qp ? &attr : NULL), 4), "rdma_listen");
	make_ep(c, ACTIVE, k->has_qp ? &other : NULL);
}

static void part(struct crew *c)
{
	for (int s = 0; s < SIDES; s++)
		if (c->id[s])
			rdma_destroy_ep(c->id[s]);
	fputc('\n', c->out);
}

static void connect_later(struct crew *c, struct later *l, struct rdma_conn_param *p)
{
	*l = (struct later){ .id = c->id[ACTIVE], .param = p, .call = rdma_connect };
	start(l);
}

static void get_request(struct crew *c)
{
	int ret;

	errno = 0;
	ret = rdma_get_request(c->id[LISTENER], &c->id[PASSIVE]);
	say_answer(c, "get_request", ret);
	if (ret)
		say_kept(c, c->id[LISTENER]);
	else {
		fputs(": ", c->out);
		say_ep(c, c->id[PASSIVE]);
	}
}

/* --- what they do --- */

static void exchange(struct crew *c)
{
	static char text[SIDES][64];
	struct ibv_mr *mr[SIDES];
	struct ibv_wc wc;

	for (int s = ACTIVE; s <= PASSIVE; s++) {
		mr[s] = rdma_reg_msgs(c->id[s], text[s], sizeof(text[s]));
		must(mr[s], "rdma_reg_msgs");
		must(!rdma_post_recv(c->id[s], c, text[s], 32, mr[s]), "rdma_post_recv");
	}
	for (int s = ACTIVE; s <= PASSIVE; s++) {
		must(!rdma_post_send(c->id[s], c, text[s] + 32, 5, mr[s], IBV_SEND_SIGNALED),
		     "rdma_post_send");
		must(rdma_get_send_comp(c->id[s], &wc) == 1, "rdma_get_send_comp");
		fprintf(c->out, " | sent %s", ibv_wc_status_str(wc.status));
	}
	for (int s = ACTIVE; s <= PASSIVE; s++) {
		must(rdma_get_recv_comp(c->id[s], &wc) == 1, "rdma_get_recv_comp");
		fprintf(c->out, " | received %s, %u B", ibv_wc_status_str(wc.status), wc.byte_len);
		must(!rdma_dereg_mr(mr[s]), "rdma_dereg_mr");
	}
}

static void open_both(struct crew *c)
{
	struct rdma_conn_param asked = usual_param(c, c->id[ACTIVE]), answered;
	bool queued = c->kind->has_qp, datagrams = c->kind->type == IBV_QPT_UD;
	struct later active, passive;

	connect_later(c, &active, queued && !datagrams ? NULL : &asked);
	get_request(c);
	answered = usual_param(c, c->id[PASSIVE]);
	passive = (struct later){ .id = c->id[PASSIVE],
				  .param = queued && !datagrams ? NULL : &answered,
				  .call = rdma_accept };
	start(&passive);
	finish(c, &active, "connect");
	if (!queued && !datagrams) {
		say_answer(c, "establish", rdma_establish(c->id[ACTIVE]));
	}
	finish(c, &passive, "accept");
}

static void accepted(struct crew *c)
{
	struct later active = { .id = c->id[ACTIVE], .call = disconnect };

	open_both(c);
	say_qp(c, c->id[ACTIVE], "; active QP");
	say_qp(c, c->id[PASSIVE], "; passive QP");
	if (c->kind->type == IBV_QPT_UD)
		return;
	if (c->kind->type == IBV_QPT_RC && c->kind->has_qp)
		exchange(c);
	start(&active);
	await(c->id[PASSIVE]->channel);
	say_answer(c, "disconnect of passive", rdma_disconnect(c->id[PASSIVE]));
	say_kept(c, c->id[PASSIVE]);
	finish(c, &active, "disconnect of active");
}

static void rejected(struct crew *c)
{
	struct rdma_conn_param asked = usual_param(c, c->id[ACTIVE]);
	struct later active;

	connect_later(c, &active, &asked);
	get_request(c);
	say_answer(c, "reject", rdma_reject(c->id[PASSIVE], "no", 2));
	say_kept(c, c->id[PASSIVE]);
	finish(c, &active, "connect");
}

static void nobody(struct crew *c)
{
	struct rdma_conn_param asked = usual_param(c, c->id[ACTIVE]);
	struct later active;

	rdma_destroy_ep(c->id[LISTENER]);
	c->id[LISTENER] = NULL;
	connect_later(c, &active, &asked);
	finish(c, &active, "connect");
	say_answer(c, "connect again", rdma_connect(c->id[ACTIVE], &asked));
	say_kept(c, c->id[ACTIVE]);
}

/* Before the request is fetched. */
static void listener_gone(struct crew *c)
{
	struct rdma_conn_param asked = usual_param(c, c->id[ACTIVE]);
	struct later active;

	connect_later(c, &active, &asked);
	await(c->id[LISTENER]->channel);
	rdma_destroy_ep(c->id[LISTENER]);
	c->id[LISTENER] = NULL;
	finish(c, &active, "connect");
}

static void passive_gone(struct crew *c)
{
	struct rdma_conn_param asked = usual_param(c, c->id[ACTIVE]);
	struct later active;

	connect_later(c, &active, &asked);
	get_request(c);
	rdma_destroy_ep(c->id[PASSIVE]);
	c->id[PASSIVE] = NULL;
	finish(c, &active, "connect");
}

static void client_gone(struct crew *c)
{
	struct rdma_conn_param asked = usual_param(c, c->id[ACTIVE]);

	never_wait(c->id[ACTIVE]->channel);
	say_answer(c, "connect", rdma_connect(c->id[ACTIVE], &asked));
	await(c->id[LISTENER]->channel);
	rdma_destroy_ep(c->id[ACTIVE]);
	c->id[ACTIVE] = NULL;
	get_request(c);
}

static void client_gone_late(struct crew *c)
{
	open_both(c);
	rdma_destroy_ep(c->id[ACTIVE]);
	c->id[ACTIVE] = NULL;
	if (c->kind->type == IBV_QPT_UD)
		return;
	await(c->id[PASSIVE]->channel);
	say_answer(c, "disconnect", rdma_disconnect(c->id[PASSIVE]));
	say_kept(c, c->id[PASSIVE]);
	say_answer(c, "disconnect again", rdma_disconnect(c->id[PASSIVE]));
	say_kept(c, c->id[PASSIVE]);
}

static void passive_gone_late(struct crew *c)
{
	open_both(c);
	rdma_destroy_ep(c->id[PASSIVE]);
	c->id[PASSIVE] = NULL;
	if (c->kind->type == IBV_QPT_UD)
		return;
	if (c->kind->type != IBV_QPT_XRC_SEND) /* whose target may live on */
		await(c->id[ACTIVE]->channel);
	say_answer(c, "disconnect", rdma_disconnect(c->id[ACTIVE]));
	say_kept(c, c->id[ACTIVE]);
}

/* The listener's queue pairs are get_request's alone. */
static void migrated(struct crew *c)
{
	struct rdma_conn_param asked = usual_param(c, c->id[ACTIVE]);
	struct rdma_event_channel *ch = make_channel();
	struct later active;

	must(!rdma_migrate_id(c->id[LISTENER], ch), "rdma_migrate_id");
	connect_later(c, &active, &asked);
	await(ch);
	c->tells = true;
	take_event(c, ch);
	fputs(": ", c->out);
	say_ep(c, c->id[PASSIVE]);
	say_answer(c, "migrate to none", rdma_migrate_id(c->id[PASSIVE], NULL));
	say_answer(c, "reject", rdma_reject(c->id[PASSIVE], NULL, 0));
	finish(c, &active, "connect");
	rdma_destroy_ep(c->id[PASSIVE]);
	c->id[PASSIVE] = NULL;
	rdma_destroy_ep(c->id[LISTENER]);
	c->id[LISTENER] = NULL;
	rdma_destroy_event_channel(ch);
}

static void migrated_back(struct crew *c)
{
	struct rdma_event_channel *ch = make_channel();

	must(!rdma_migrate_id(c->id[LISTENER], ch), "rdma_migrate_id");
	must(!rdma_migrate_id(c->id[LISTENER], NULL), "rdma_migrate_id");
	rdma_destroy_event_channel(ch);
	rejected(c);
}

/* What a synchronous id has kept goes when it migrates. */
static void migrated_client(struct crew *c)
{
	struct rdma_event_channel *ch = make_channel();

	errno = 0;
	say_kept(c, c->id[ACTIVE]);
	say_answer(c, "migrate", rdma_migrate_id(c->id[ACTIVE], ch));
	say_kept(c, c->id[ACTIVE]);
	say_answer(c, "migrate to none", rdma_migrate_id(c->id[ACTIVE], NULL));
	say_answer(c, "to none again", rdma_migrate_id(c->id[ACTIVE], NULL));
	rdma_destroy_event_channel(ch);
	accepted(c);
}

/* --- other attributes of listeners --- */

static void unable(void)
{
	static const struct kind k = { "TCP", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = false };
	struct ibv_qp_init_attr attr = ep_attr();
	struct rdma_conn_param asked;
	struct crew c = { .kind = &k, .out = stdout };

	attr.cap.max_send_sge = 1 << 20;
	printf("flows a listener that can make no queue pair:");
	must(!rdma_listen(make_ep(&c, LISTENER, &attr), 4), "rdma_listen");
	make_ep(&c, ACTIVE, NULL);
	asked = usual_param(&c, c.id[ACTIVE]);
	never_wait(c.id[ACTIVE]->channel);
	say_answer(&c, "connect", rdma_connect(c.id[ACTIVE], &asked));
	get_request(&c);
	c.id[PASSIVE] = c.id[LISTENER]->event->id;
	say_answer(&c, "reject", rdma_reject(c.id[PASSIVE], "no", 2));
	await(c.id[ACTIVE]->channel);
	c.tells = true;
	take_event(&c, c.id[ACTIVE]->channel);
	part(&c);
}

static void with_data(size_t front, uint8_t back)
{
	static const struct kind k = { "TCP", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = false };
	struct crew c = { .kind = &k, .out = stdout };
	union address at;
	char data[64] = "of the endpoint, and ", text[64] = "of the program";
	struct rdma_addrinfo info;
	struct rdma_conn_param p;

	printf("flows %zu B of data of the endpoint and %u B of the program:", front, back);
	must(!rdma_listen(make_ep(&c, LISTENER, NULL), 4), "rdma_listen");
	at = own_address(false, listener_port(&c));
	info = ep_info(&k, &at, false);
	info.ai_connect = data;
	info.ai_connect_len = front;
	must(!rdma_create_ep(&c.id[ACTIVE], &info, NULL, NULL), "rdma_create_ep");
	p = usual_param(&c, c.id[ACTIVE]);
	p.private_data = back ? text : NULL;
	p.private_data_len = back;
	never_wait(c.id[ACTIVE]->channel);
	say_answer(&c, "connect", rdma_connect(c.id[ACTIVE], &p));
	if (back + front <= 56)
		get_request(&c);
	part(&c);
}

/* --- without a channel from the beginning --- */

static void alone(const struct kind *k)
{
	struct crew c = { .kind = k, .out = stdout };
	union address at = own_address(k->v6, htons(9)), group = group_address(k->v6);
	struct rdma_conn_param p;
	struct rdma_cm_id *id;

	printf("flows %s, without channel:", k->name);
	alarm(PATIENCE_S);
	say_answer(&c, "create_id", rdma_create_id(NULL, &c.id[ACTIVE], &c, k->ps));
	id = c.id[ACTIVE];
	fputs(id->channel ? ", which has made one" : "", c.out);
	say_answer(&c, "resolve_addr", rdma_resolve_addr(id, NULL, &at.sa, 2000));
	say_kept(&c, id);
	say_answer(&c, "resolve_addr again", rdma_resolve_addr(id, NULL, &at.sa, 2000));
	say_kept(&c, id);
	if (k->type == IBV_QPT_UD) {
		say_answer(&c, "join", rdma_join_multicast(id, &group.sa, &c));
		say_kept(&c, id);
	}
	say_answer(&c, "resolve_route", rdma_resolve_route(id, 2000));
	say_kept(&c, id);
	if (k->type == IBV_QPT_UD) /* not while the id keeps the event: Linux waits for its ack */
		say_answer(&c, "leave", rdma_leave_multicast(id, &group.sa));
	p = usual_param(&c, id);
	say_answer(&c, "connect", rdma_connect(id, &p));
	say_kept(&c, id);
	say_answer(&c, "destroy_id", rdma_destroy_id(id));
	putchar('\n');
}

/* --- SRQs --- */

static void say_srq(struct crew *c, const char *call, int ret)
{
	const struct rdma_cm_id *id = c->id[ACTIVE];

	say_answer(c, call, ret);
	fprintf(c->out, "%s%s%s%s", id->srq ? " SRQ" : "", id->qp ? " QP" : "",
		id->send_cq ? " sends" : "", id->recv_cq ? " receives" : "");
	if (id->qp && id->qp->srq)
		fprintf(c->out, "%s", id->qp->srq == id->srq ? " with it" : " with an SRQ");
	errno = 0;
}

static void of_srqs(void)
{
	static const struct kind k = { "TCP", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = false };
	struct ibv_srq_init_attr srq = { .srq_context = &srq, .attr = { 3, 1, 0 } }, many = srq;
	struct ibv_srq_init_attr_ex ex = { .attr = { 3, 1, 0 } };
	struct ibv_qp_init_attr attr = ep_attr();
	struct crew c = { .kind = &k, .out = stdout };

	many.attr.max_wr = 1 << 30;
	printf("flows SRQs:");
	make_ep(&c, ACTIVE, NULL);
	errno = 0;
	say_srq(&c, "create_srq too large", rdma_create_srq(c.id[ACTIVE], NULL, &many));
	say_srq(&c, "create_srq", rdma_create_srq(c.id[ACTIVE], NULL, &srq));
	fprintf(c.out, "%s", c.id[ACTIVE]->srq->srq_context == &srq ? ", its context" : "");
	say_srq(&c, "again", rdma_create_srq(c.id[ACTIVE], NULL, &srq));
	say_srq(&c, "create_qp", rdma_create_qp(c.id[ACTIVE], NULL, &attr));
	fprintf(c.out, "%s", attr.srq ? ", written back" : "");
	say_srq(&c, "destroy_qp", (rdma_destroy_qp(c.id[ACTIVE]), 0));
	say_srq(&c, "destroy_srq", (rdma_destroy_srq(c.id[ACTIVE]), 0));
	say_srq(&c, "create_srq_ex without type", rdma_create_srq_ex(c.id[ACTIVE], &ex));
	ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE;
	ex.srq_type = IBV_SRQT_BASIC;
	say_srq(&c, "create_srq_ex", rdma_create_srq_ex(c.id[ACTIVE], &ex));
	fprintf(c.out, ", PD %s",
		ex.pd && ex.pd == c.id[ACTIVE]->pd ? "written back" : "left open");
	say_srq(&c, "destroy_srq", (rdma_destroy_srq(c.id[ACTIVE]), 0));
	ex.srq_type = IBV_SRQT_XRC;
	say_srq(&c, "create_srq_ex XRC", rdma_create_srq_ex(c.id[ACTIVE], &ex));
	part(&c);
}

/* Of a listener, for its requests. */
static void srq_of_listener(bool in_attr)
{
	static const struct kind k = { "TCP", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = true };
	struct ibv_srq_init_attr srq = { .attr = { 3, 1, 0 } };
	struct ibv_qp_init_attr attr = ep_attr(), other = ep_attr();
	struct ibv_srq *made = NULL;
	struct crew c = { .kind = &k, .out = stdout };

	printf("flows a listener with an SRQ %s:", in_attr ? "in its attributes" : "of its own");
	make_ep(&c, ACTIVE, NULL);
	if (in_attr)
		attr.srq = made = ibv_create_srq(c.id[ACTIVE]->pd, &srq);
	rdma_destroy_ep(c.id[ACTIVE]);
	must(!rdma_listen(make_ep(&c, LISTENER, &attr), 4), "rdma_listen");
	if (!in_attr)
		must(!rdma_create_srq(c.id[LISTENER], NULL, &srq), "rdma_create_srq");
	make_ep(&c, ACTIVE, &other);
	rejected(&c);
	part(&c);
	if (made)
		must(!ibv_destroy_srq(made), "ibv_destroy_srq");
}

/* --- extended attributes of queue pairs --- */

static void of_ex(void)
{
	static const struct kind k = { "TCP", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = false };
	struct crew c = { .kind = &k, .out = stdout };

	for (int mask = 0; mask < 4; mask++) {
		struct ibv_qp_init_attr_ex ex = {
			.cap = { 2, 3, 1, 1, 0 },
			.qp_type = IBV_QPT_RC,
			.comp_mask =
				(mask & 1 ? IBV_QP_INIT_ATTR_PD : 0) | (mask & 2 ? 1 << 30 : 0),
		};
		int ret;

		printf("flows create_qp_ex with mask %x:", ex.comp_mask);
		make_ep(&c, ACTIVE, NULL);
		errno = 0;
		ret = rdma_create_qp_ex(c.id[ACTIVE], &ex);
		say_answer(&c, "create", ret);
		fputs(": ", c.out);
		say_ep(&c, c.id[ACTIVE]);
		fprintf(c.out, "; mask %x, PD %s\n", ex.comp_mask,
			ex.pd && ex.pd == c.id[ACTIVE]->pd ? "written back" : "left open");
		rdma_destroy_ep(c.id[ACTIVE]);
	}
}

void say_flows(void)
{
	enum { PLAIN, DATAGRAM = 3 };
	static const struct kind kinds[] = {
		{ "plain", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = false },
		{ "queued", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = true },
		{ "v6", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = true, .v6 = true },
		{ "datagram", RDMA_PS_UDP, IBV_QPT_UD, .has_qp = true },
		{ "ib", RDMA_PS_IB, IBV_QPT_RC, .has_qp = true },
		{ "ib-uc", RDMA_PS_IB, IBV_QPT_UC, .has_qp = true },
		{ "ib-datagram", RDMA_PS_IB, IBV_QPT_UD, .has_qp = true },
		{ "xrc", RDMA_PS_IB, IBV_QPT_XRC_SEND, .has_qp = false, .xrc = true },
	};
	static const struct {
		const char *name;
		void (*run)(struct crew *c);
		bool plain; /* Linux makes no queue pair once a REJ is in: a race */
	} flows[] = {
		{ "accepted", accepted },
		{ "rejected", rejected },
		{ "nobody", nobody },
		{ "listener gone", listener_gone },
		{ "passive end gone", passive_gone },
		{ "client gone", client_gone, .plain = true },
		{ "client gone when open", client_gone_late },
		{ "passive end gone when open", passive_gone_late },
		{ "migrated", migrated },
		{ "migrated and back", migrated_back },
		{ "client migrated and back", migrated_client },
	};

	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++)
		for (size_t f = 0; f < sizeof(flows) / sizeof(flows[0]); f++) {
			struct crew c;

			if (flows[f].plain && kinds[k].has_qp)
				continue;
			printf("flows %s, %s:", kinds[k].name, flows[f].name);
			fflush(stdout);
			alarm(PATIENCE_S);
			meet(&c, &kinds[k]);
			flows[f].run(&c);
			part(&c);
		}
	alone(&kinds[PLAIN]);
	alone(&kinds[DATAGRAM]);
	unable();
	with_data(21, 14);
	with_data(21, 0);
	with_data(21, 35);
	with_data(21, 36);
	with_data(57, 0);
	of_srqs();
	srq_of_listener(false);
	srq_of_listener(true);
	of_ex();
}
