// SPDX-License-Identifier: MIT
/* Events, ids and queue pairs as text. What chance makes is told by what it is equal to. */
#include "contract.h"
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#define SAY(what, value)                                                                           \
	do {                                                                                       \
		if (value)                                                                         \
			fprintf(c->out, " " what "=%llu", (unsigned long long)(value));            \
	} while (0)

static const char *who(const struct crew *c, const struct rdma_cm_id *id)
{
	return !id		       ? "nobody"
	       : id == c->id[ACTIVE]   ? "active"
	       : id == c->id[PASSIVE]  ? "passive"
	       : id == c->id[LISTENER] ? "listener"
				       : "another";
}

static void say_qpn(const struct crew *c, const char *what, uint32_t qpn)
{
	static const char *const names[SIDES] = { "active", "passive", "listener" };

	for (int s = 0; s < SIDES && qpn; s++) {
		if (c->id[s] && c->id[s]->qp && c->id[s]->qp->qp_num == qpn)
			fprintf(c->out, " %s=%s's", what, names[s]);
		else if (c->given[s] == qpn)
			fprintf(c->out, " %s=given by %s", what, names[s]);
		else
			continue;
		return;
	}
	if (qpn)
		fprintf(c->out, " %s=%s", what, qpn == 0xffffff ? "all" : "unknown");
}

static void say_address(const struct crew *c, const char *what, const struct sockaddr *sa)
{
	const union address *a = (const void *)sa;
	char text[INET6_ADDRSTRLEN] = "";
	in_port_t port = sa->sa_family == AF_INET6 ? a->in6.sin6_port : a->in.sin_port;

	if (!sa->sa_family)
		return;
	inet_ntop(sa->sa_family,
		  sa->sa_family == AF_INET6 ? (const void *)&a->in6.sin6_addr
					    : (const void *)&a->in.sin_addr,
		  text, sizeof(text));
	fprintf(c->out, " %s=%s port=%s", what, text,
		!port					      ? "0"
		: c->id[LISTENER] && port == listener_port(c) ? "listener's"
		: ntohs(port) < 1024			      ? "low"
							      : "its own");
	if (sa->sa_family == AF_INET6) {
		SAY("scope", a->in6.sin6_scope_id);
		SAY("flowinfo", ntohl(a->in6.sin6_flowinfo));
	}
}

static void say_gid(const struct crew *c, const char *what, const union ibv_gid *gid)
{
	char text[INET6_ADDRSTRLEN];

	if (gid->global.subnet_prefix || gid->global.interface_id)
		fprintf(c->out, " %s=%s", what,
			inet_ntop(AF_INET6, gid, text, sizeof(text)) ? text : "?");
}

static void say_data(const struct crew *c, const uint8_t *data, size_t len)
{
	SAY("len", len);
	for (size_t end = len; data && end; end--) {
		if (!data[end - 1])
			continue;
		fputs(" data=\"", c->out);
		for (size_t i = 0; i < end; i++)
			fputc(data[i] > 31 && data[i] < 127 ? data[i] : '?', c->out);
		fputc('"', c->out);
		return;
	}
}

/* A label made of the ports, as one of the ends has them. */
static void say_flow(struct crew *c, uint32_t label)
{
	for (int s = ACTIVE; s <= PASSIVE; s++) {
		uint32_t src, dst;

		if (!c->id[s])
			continue;
		src = ntohs(rdma_get_src_port(c->id[s]));
		dst = ntohs(rdma_get_dst_port(c->id[s]));
		if (!label || label != ((src * 31 + dst) & 0xfffff))
			continue;
		fprintf(c->out, " flow=ports of %s", who(c, c->id[s]));
		return;
	}
	SAY("flow", label);
}

static void say_ah(struct crew *c, const struct ibv_ah_attr *ah)
{
	SAY("global", ah->is_global);
	say_gid(c, "dgid", &ah->grh.dgid);
	say_flow(c, ah->grh.flow_label);
	SAY("hops", ah->grh.hop_limit);
	SAY("tclass", ah->grh.traffic_class);
	SAY("dlid", ah->dlid);
	SAY("sl", ah->sl);
	SAY("bits", ah->src_path_bits);
	SAY("rate", ah->static_rate);
	SAY("port", ah->port_num);
}

void say_event(struct crew *c, const struct rdma_cm_event *e)
{
	if (c->where)
		fprintf(c->out, " | %s", c->where);
	fprintf(c->out, " %s", rdma_event_str(e->event) + strlen("RDMA_CM_EVENT_"));
	if (e->status < 0)
		fprintf(c->out, " -%s", errno_name(-e->status));
	else
		SAY("status", e->status);
	fprintf(c->out, " of %s", who(c, e->id));
	if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		fprintf(c->out, " from %s, context %s", who(c, e->listen_id),
			e->id->context == c ? "kept" : "other");
	if (e->id->qp_type == IBV_QPT_UD) {
		say_data(c, e->param.ud.private_data, e->param.ud.private_data_len);
		say_ah(c, &e->param.ud.ah_attr);
		say_qpn(c, "qpn", e->param.ud.qp_num);
		SAY("qkey", e->param.ud.qkey);
		return;
	}
	say_data(c, e->param.conn.private_data, e->param.conn.private_data_len);
	SAY("responder", e->param.conn.responder_resources);
	SAY("initiator", e->param.conn.initiator_depth);
	SAY("flow-control", e->param.conn.flow_control);
	SAY("retry", e->param.conn.retry_count);
	SAY("rnr-retry", e->param.conn.rnr_retry_count);
	SAY("srq", e->param.conn.srq);
	say_qpn(c, "qpn", e->param.conn.qp_num);
}

static void say_path(struct crew *c, const struct ibv_sa_path_rec *p)
{
	fputs("; path", c->out);
	say_gid(c, "sgid", &p->sgid);
	say_gid(c, "dgid", &p->dgid);
	say_flow(c, ntohl(p->flow_label) & 0xfffff); /* Linux shows a bit of a MAC above it */
	SAY("hops", p->hop_limit);
	SAY("tclass", p->traffic_class);
	SAY("reversible", p->reversible);
	SAY("numb", p->numb_path);
	SAY("pkey", ntohs(p->pkey));
	SAY("sl", p->sl);
	SAY("mtu-selector", p->mtu_selector);
	SAY("mtu", p->mtu);
	SAY("rate-selector", p->rate_selector);
	SAY("rate", p->rate);
	SAY("life-selector", p->packet_life_time_selector);
	SAY("life", p->packet_life_time);
	SAY("preference", p->preference);
}

void say_id(struct crew *c, const struct rdma_cm_id *id, const char *when)
{
	fprintf(c->out, "%s: %s", when, id->verbs ? "verbs" : "no verbs");
	fputs(id->pd ? ", PD" : "", c->out);
	SAY("port", id->port_num);
	SAY("ps", id->ps);
	SAY("type", id->qp_type);
	say_address(c, "src", &id->route.addr.src_addr);
	say_address(c, "dst", &id->route.addr.dst_addr);
	say_gid(c, "sgid", &id->route.addr.addr.ibaddr.sgid);
	say_gid(c, "dgid", &id->route.addr.addr.ibaddr.dgid);
	SAY("pkey", ntohs(id->route.addr.addr.ibaddr.pkey));
	SAY("paths", id->route.num_paths);
	for (int i = 0; i < id->route.num_paths; i++)
		say_path(c, &id->route.path_rec[i]);
}

/* A PSN is the other end's, or its own. */
static void say_psn(struct crew *c, const struct ibv_qp_attr *a, int mask)
{
	if (mask & IBV_QP_SQ_PSN)
		fprintf(c->out, " sq-psn=%s", a->sq_psn ? "some" : "0");
	if (mask & IBV_QP_RQ_PSN)
		fprintf(c->out, " rq-psn=%s", a->rq_psn ? "some" : "0");
}

void say_attr(struct crew *c, const struct ibv_qp_attr *a, int mask)
{
	fprintf(c->out, " (mask %x", (unsigned int)mask);
	SAY("state", mask & IBV_QP_STATE ? a->qp_state : 0);
	SAY("access", mask & IBV_QP_ACCESS_FLAGS ? a->qp_access_flags : 0);
	SAY("pkey-index", mask & IBV_QP_PKEY_INDEX ? a->pkey_index : 0);
	SAY("port", mask & IBV_QP_PORT ? a->port_num : 0);
	SAY("qkey", mask & IBV_QP_QKEY ? a->qkey : 0);
	if (mask & IBV_QP_AV) {
		say_ah(c, &a->ah_attr);
	}
	SAY("mtu", mask & IBV_QP_PATH_MTU ? a->path_mtu : 0);
	SAY("timeout", mask & IBV_QP_TIMEOUT ? a->timeout : 0);
	SAY("retry", mask & IBV_QP_RETRY_CNT ? a->retry_cnt : 0);
	SAY("rnr-retry", mask & IBV_QP_RNR_RETRY ? a->rnr_retry : 0);
	SAY("rd-atomic", mask & IBV_QP_MAX_QP_RD_ATOMIC ? a->max_rd_atomic : 0);
	SAY("dest-rd-atomic", mask & IBV_QP_MAX_DEST_RD_ATOMIC ? a->max_dest_rd_atomic : 0);
	SAY("rnr-timer", mask & IBV_QP_MIN_RNR_TIMER ? a->min_rnr_timer : 0);
	if (mask & IBV_QP_DEST_QPN)
		say_qpn(c, "dest", a->dest_qp_num);
	say_psn(c, a, mask);
	fputc(')', c->out);
}

void say_qp(struct crew *c, const struct rdma_cm_id *id, const char *when)
{
	enum { ASK = 0x1fffff };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	bool rc, uc;

	if (!id->qp)
		return;
	rc = id->qp->qp_type == IBV_QPT_RC;
	uc = id->qp->qp_type == IBV_QPT_UC;
	must(!ibv_query_qp(id->qp, &a, ASK, &init), "ibv_query_qp");
	mask |= rc || uc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY;
	if (a.qp_state == IBV_QPS_RTR || a.qp_state == IBV_QPS_RTS)
		mask |= (rc || uc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN
				  : 0) |
			(rc ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0);
	if (a.qp_state == IBV_QPS_RTS)
		mask |= IBV_QP_SQ_PSN | (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
							 IBV_QP_MAX_QP_RD_ATOMIC
					    : 0);
	fprintf(c->out, "%s:", when);
	say_attr(c, &a, mask);
}

void qp_states(const struct crew *c, char *out, size_t room)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	*out = 0;
	for (int s = ACTIVE; s <= PASSIVE; s++) {
		size_t len = strlen(out);

		if (!c->id[s] || !c->id[s]->qp)
			continue;
		must(!ibv_query_qp(c->id[s]->qp, &a, IBV_QP_STATE, &init), "ibv_query_qp");
		snprintf(out + len, room - len, " %s %s", who(c, c->id[s]), names[a.qp_state % 7]);
	}
}
