// SPDX-License-Identifier: MIT
/* The calls, each with its arguments. */
#include "contract.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int bind_own(struct crew *c, struct rdma_cm_id *id)
{
	union address a = own_address(c->kind->v6, 0);

	return rdma_bind_addr(id, &a.sa);
}

static int bind_any(struct crew *c, struct rdma_cm_id *id)
{
	union address a = { .in = { .sin_family = AF_INET } };

	(void)c;
	return rdma_bind_addr(id, &a.sa);
}

static int bind_taken(struct crew *c, struct rdma_cm_id *id)
{
	union address a = own_address(c->kind->v6, listener_port(c));

	return rdma_bind_addr(id, &a.sa);
}

static int bind_foreign(struct crew *c, struct rdma_cm_id *id)
{
	union address a = { .in = { .sin_family = AF_INET } };

	(void)c;
	inet_pton(AF_INET, "203.0.113.5", &a.in.sin_addr);
	return rdma_bind_addr(id, &a.sa);
}

static int do_listen(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_listen(id, 1);
}

static int resolve_addr(struct crew *c, struct rdma_cm_id *id)
{
	union address a = own_address(c->kind->v6, listener_port(c));

	return rdma_resolve_addr(id, NULL, &a.sa, 2000);
}

static int resolve_from(struct crew *c, struct rdma_cm_id *id)
{
	union address a = own_address(c->kind->v6, listener_port(c));
	union address from = own_address(c->kind->v6, 0);

	return rdma_resolve_addr(id, &from.sa, &a.sa, 2000);
}

static int resolve_nowhere(struct crew *c, struct rdma_cm_id *id)
{
	union address a = { .in = { .sin_family = AF_INET, .sin_port = htons(9) } };

	(void)c;
	inet_pton(AF_INET, "203.0.113.5", &a.in.sin_addr);
	return rdma_resolve_addr(id, NULL, &a.sa, 2000);
}

static int resolve_group(struct crew *c, struct rdma_cm_id *id)
{
	union address a = group_address(c->kind->v6);

	return rdma_resolve_addr(id, NULL, &a.sa, 2000);
}

static int resolve_other_family(struct crew *c, struct rdma_cm_id *id)
{
	union address a = own_address(!c->kind->v6, listener_port(c));
	union address from = own_address(c->kind->v6, 0);

	return rdma_resolve_addr(id, &from.sa, &a.sa, 2000);
}

static int resolve_route(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_resolve_route(id, 2000);
}

static int resolve_route_at_once(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_resolve_route(id, 0);
}

static int create_qp(struct crew *c, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = c->kind->type };
	bool had = id->qp;
	int ret = rdma_create_qp(id, NULL, &attr);

	if (!ret && !had)
		say_qp(c, id, "");
	return ret;
}

static int create_qp_other_type(struct crew *c, struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = c->kind->type == IBV_QPT_RC ? IBV_QPT_UD : IBV_QPT_RC,
	};

	return rdma_create_qp(id, NULL, &attr);
}

static int destroy_qp(struct crew *c, struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	qp_states(c, c->qps, sizeof(c->qps));
	return id->qp ? -1 : 0;
}

static int create_srq(struct crew *c, struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	int ret = rdma_create_srq(id, NULL, &attr);

	(void)c;
	if (ret)
		return ret;
	fputs(id->srq ? "SRQ " : "", c->out);
	rdma_destroy_srq(id);
	return id->srq ? -1 : 0;
}

static int do_connect(struct crew *c, struct rdma_cm_id *id)
{
	struct rdma_conn_param p = usual_param(c, id);

	return rdma_connect(id, &p);
}

static int connect_null(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_connect(id, NULL);
}

static int connect_most(struct crew *c, struct rdma_cm_id *id)
{
	static const char data[56] = "as much as goes in";
	struct rdma_conn_param p = usual_param(c, id);

	p.private_data = data;
	p.private_data_len = sizeof(data);
	p.retry_count = 15;
	p.rnr_retry_count = 15;
	p.srq = 1;
	return rdma_connect(id, &p);
}

static int connect_too_much(struct crew *c, struct rdma_cm_id *id)
{
	static const char data[256] = "more than goes in";
	struct rdma_conn_param p = usual_param(c, id);

	p.private_data = data;
	p.private_data_len = c->kind->ps == RDMA_PS_UDP ? 181 : 57;
	return rdma_connect(id, &p);
}

static int do_accept(struct crew *c, struct rdma_cm_id *id)
{
	struct rdma_conn_param p = usual_param(c, id);

	return rdma_accept(id, &p);
}

static int accept_null(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_accept(id, NULL);
}

static int accept_deep(struct crew *c, struct rdma_cm_id *id)
{
	struct rdma_conn_param p = usual_param(c, id);

	p.initiator_depth = 254;
	return rdma_accept(id, &p);
}

static int accept_too_much(struct crew *c, struct rdma_cm_id *id)
{
	static const char data[256] = "more than goes in";
	struct rdma_conn_param p = usual_param(c, id);

	p.private_data = data;
	p.private_data_len = c->kind->ps == RDMA_PS_UDP ? 137 : 197;
	return rdma_accept(id, &p);
}

static int reject(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_reject(id, NULL, 0);
}

static int reject_saying(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_reject(id, "no room", 7);
}

static int reject_too_much(struct crew *c, struct rdma_cm_id *id)
{
	static const char data[256] = "more than goes in";

	return rdma_reject(id, data, c->kind->ps == RDMA_PS_UDP ? 137 : 149);
}

static int reject_ece(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_reject_ece(id, "no", 2);
}

static int disconnect(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_disconnect(id);
}

static int disconnect_twice(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_disconnect(id) ? -1 : rdma_disconnect(id);
}

static int establish(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_establish(id);
}

static int notify(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_notify(id, IBV_EVENT_COMM_EST);
}

static int notify_other(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return rdma_notify(id, IBV_EVENT_QP_FATAL);
}

static int init_attr(struct crew *c, struct rdma_cm_id *id, enum ibv_qp_state state)
{
	struct ibv_qp_attr a = { .qp_state = state };
	int mask = 0, ret = rdma_init_qp_attr(id, &a, &mask);

	if (!ret)
		say_attr(c, &a, mask);
	return ret;
}

static int init_attr_init(struct crew *c, struct rdma_cm_id *id)
{
	return init_attr(c, id, IBV_QPS_INIT);
}

static int init_attr_rtr(struct crew *c, struct rdma_cm_id *id)
{
	return init_attr(c, id, IBV_QPS_RTR);
}

static int init_attr_rts(struct crew *c, struct rdma_cm_id *id)
{
	return init_attr(c, id, IBV_QPS_RTS);
}

static int init_attr_err(struct crew *c, struct rdma_cm_id *id)
{
	return init_attr(c, id, IBV_QPS_ERR);
}

static int option(struct rdma_cm_id *id, int name, uint8_t value, size_t len)
{
	int word = value;

	return rdma_set_option(id, RDMA_OPTION_ID, name, len == 1 ? (void *)&value : &word, len);
}

static int set_tos(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return option(id, RDMA_OPTION_ID_TOS, 0x20, 1);
}

static int set_reuse(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return option(id, RDMA_OPTION_ID_REUSEADDR, 1, sizeof(int));
}

static int set_afonly(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return option(id, RDMA_OPTION_ID_AFONLY, 1, sizeof(int));
}

static int set_ack_timeout(struct crew *c, struct rdma_cm_id *id)
{
	(void)c;
	return option(id, RDMA_OPTION_ID_ACK_TIMEOUT, 21, 1);
}

static int join(struct crew *c, struct rdma_cm_id *id)
{
	union address a = group_address(c->kind->v6);

	a.in.sin_addr.s_addr ^= htonl(1);
	return rdma_join_multicast(id, &a.sa, c);
}

static int join_sending(struct crew *c, struct rdma_cm_id *id)
{
	union address a = group_address(c->kind->v6);
	struct rdma_cm_join_mc_attr_ex ex = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = &a.sa,
	};

	a.in.sin_addr.s_addr ^= htonl(2);
	return rdma_join_multicast_ex(id, &ex, c);
}

static int leave(struct crew *c, struct rdma_cm_id *id)
{
	union address a = group_address(c->kind->v6);

	return rdma_leave_multicast(id, &a.sa);
}

static int migrate(struct crew *c, struct rdma_cm_id *id)
{
	return rdma_migrate_id(id, c->other);
}

static int migrate_to_none(struct crew *c, struct rdma_cm_id *id)
{
	int ret = rdma_migrate_id(id, NULL);

	(void)c;
	never_wait(id->channel);
	return ret;
}

static int get_request(struct crew *c, struct rdma_cm_id *id)
{
	struct rdma_cm_id *new_id;

	(void)c;
	return rdma_get_request(id, &new_id);
}

static int set_ece(struct crew *c, struct rdma_cm_id *id)
{
	struct ibv_ece ece = { .vendor_id = 0, .options = 0 };

	(void)c;
	return rdma_set_local_ece(id, &ece);
}

static int get_ece(struct crew *c, struct rdma_cm_id *id)
{
	struct ibv_ece ece = { .vendor_id = 1 };
	int ret = rdma_get_remote_ece(id, &ece);

	if (!ret && ece.vendor_id)
		fprintf(c->out, "vendor %x ", ece.vendor_id);
	return ret;
}

static int destroy_id(struct crew *c, struct rdma_cm_id *id)
{
	int ret;

	if (id->qp)
		rdma_destroy_qp(id);
	ret = rdma_destroy_id(id);
	c->id[c->subject] = NULL;
	qp_states(c, c->qps, sizeof(c->qps));
	return ret;
}

const struct call contract_calls[] = {
	{ .name = "bind own", .make = bind_own },
	{ .name = "bind any", .make = bind_any },
	{ .name = "bind taken", .make = bind_taken },
	{ .name = "bind foreign", .make = bind_foreign },
	{ .name = "listen", .make = do_listen, .sync = true, .typed = true },
	{ .name = "resolve_addr", .make = resolve_addr, .sync = true },
	{ .name = "resolve_addr with source", .make = resolve_from, .sync = true },
	{ .name = "resolve_addr nowhere", .make = resolve_nowhere, .sync = true },
	{ .name = "resolve_addr group", .make = resolve_group, .sync = true },
	{ .name = "resolve_addr other family", .make = resolve_other_family, .sync = true },
	{ .name = "resolve_route", .make = resolve_route, .needs_verbs = true, .sync = true },
	{ .name = "resolve_route in 0 ms",
	  .make = resolve_route_at_once,
	  .needs_verbs = true,
	  .sync = true },
	{ .name = "create_qp", .make = create_qp, .needs_verbs = true },
	{ .name = "create_qp other type", .make = create_qp_other_type, .needs_verbs = true },
	{ .name = "destroy_qp", .make = destroy_qp, .needs_qp = true },
	{ .name = "create_srq", .make = create_srq, .needs_verbs = true },
	{ .name = "connect", .make = do_connect, .needs_verbs = true, .waits = true },
	{ .name = "connect NULL", .make = connect_null, .needs_verbs = true, .waits = true },
	{ .name = "connect most", .make = connect_most, .needs_verbs = true, .waits = true },
	{ .name = "connect too much",
	  .make = connect_too_much,
	  .needs_verbs = true,
	  .waits = true },
	{ .name = "accept", .make = do_accept, .needs_verbs = true, .waits = true },
	{ .name = "accept NULL",
	  .make = accept_null,
	  .needs_verbs = true,
	  .needs_qp = true,
	  .waits = true },
	{ .name = "accept deep", .make = accept_deep, .needs_verbs = true, .waits = true },
	{ .name = "accept too much", .make = accept_too_much, .needs_verbs = true, .waits = true },
	{ .name = "reject", .make = reject, .sync = true, .typed = true },
	{ .name = "reject with data", .make = reject_saying, .typed = true },
	{ .name = "reject too much", .make = reject_too_much },
	{ .name = "reject_ece", .make = reject_ece },
	{ .name = "disconnect", .make = disconnect, .needs_verbs = true, .waits = true },
	{ .name = "disconnect twice",
	  .make = disconnect_twice,
	  .needs_verbs = true,
	  .waits = true },
	{ .name = "establish", .make = establish, .sync = true, .typed = true },
	{ .name = "notify", .make = notify, .typed = true },
	{ .name = "notify other", .make = notify_other },
	{ .name = "init_qp_attr INIT", .make = init_attr_init, .typed = true },
	{ .name = "init_qp_attr RTR", .make = init_attr_rtr, .typed = true },
	{ .name = "init_qp_attr RTS", .make = init_attr_rts, .typed = true },
	{ .name = "init_qp_attr ERR", .make = init_attr_err, .typed = true },
	{ .name = "option TOS", .make = set_tos },
	{ .name = "option REUSEADDR", .make = set_reuse },
	{ .name = "option AFONLY", .make = set_afonly },
	{ .name = "option ACK_TIMEOUT", .make = set_ack_timeout, .typed = true },
	{ .name = "join", .make = join, .sync = true },
	{ .name = "join to send", .make = join_sending, .sync = true },
	{ .name = "leave", .make = leave, .sync = true },
	{ .name = "migrate", .make = migrate, .sync = true },
	{ .name = "migrate to none", .make = migrate_to_none, .sync = true },
	{ .name = "get_request", .make = get_request, .waits = true },
	{ .name = "set_local_ece", .make = set_ece },
	{ .name = "get_remote_ece", .make = get_ece },
	{ .name = "destroy_id", .make = destroy_id, .sync = true, .typed = true },
	{ .name = NULL },
};
