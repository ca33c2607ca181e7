// SPDX-License-Identifier: MIT
#include "rdmacm/rsocket/dgram_qp.h"
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include "rdmacm/rsocket/dgram.h"

enum { GRH = 40, HEAD4 = 8, HEAD6 = 24, ROOM = GRH + HEAD6 + DGRAM_MAX };
enum { SENDS = 16384 }; /* of two blocks each: as many as a queue has (hca/limits.h) */
enum { VERSION4 = 4, VERSION6 = 6, IPV4_AT = 20, IPV4_FROM = 32, IPV6_FROM = 8, HOPS = 64 };

struct head { /* of a message */
	uint8_t version, length;
	__be16 port;
	uint8_t addr[20]; /* IPv4's four bytes; else flow label and IPv6's sixteen */
};

_Static_assert(sizeof(struct head) == HEAD6, "as it travels");

struct dgram_qp {
	struct rdma_cm_id *id;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_mr *mr;
	uint8_t *memory; /* slots of ROOM bytes: those of receives, then those of sends */
	uint16_t *idle; /* slots of sends */
	uint32_t sq, rq, n_idle;
	union ibv_gid gid;
	uint8_t sgid_index;
	uint32_t mtu; /* bytes of a message */
	struct head head;
};

static uint8_t *slot(const struct dgram_qp *qp, uint32_t i)
{
	return qp->memory + (size_t)i * ROOM;
}

/* --- beginning and end --- */

void dgram_qp_free(struct dgram_qp *qp)
{
	if (!qp)
		return;
	if (qp->id && qp->id->qp)
		rdma_destroy_qp(qp->id);
	if (qp->send_cq)
		ibv_destroy_cq(qp->send_cq);
	if (qp->recv_cq)
		ibv_destroy_cq(qp->recv_cq);
	if (qp->channel)
		ibv_destroy_comp_channel(qp->channel);
	if (qp->mr)
		ibv_dereg_mr(qp->mr);
	if (qp->id)
		rdma_destroy_id(qp->id);
	free(qp->memory);
	free(qp->idle);
	free(qp);
}

static void say_address(struct dgram_qp *qp)
{
	bool v4 = is_v4(&qp->gid);

	qp->head.version = v4 ? VERSION4 : VERSION6;
	qp->head.length = v4 ? HEAD4 : HEAD6;
	if (v4)
		memcpy(qp->head.addr, qp->gid.raw + 12, 4);
	else
		memcpy(qp->head.addr + 4, qp->gid.raw, 16);
}

/* The entry of the address that packets are to come from. */
static int find_gid(struct dgram_qp *qp)
{
	struct ibv_gid_entry e;

	for (uint32_t i = 0; i < UINT8_MAX; i++)
		if (!ibv_query_gid_ex(qp->id->verbs, qp->id->port_num, i, &e, 0) &&
		    e.gid_type == IBV_GID_TYPE_ROCE_V2 &&
		    !memcmp(&e.gid, &qp->gid, sizeof(e.gid))) {
			qp->sgid_index = (uint8_t)i;
			return 0;
		}
	return ENODEV;
}

static int bind_id(struct dgram_qp *qp, const struct sockaddr *local)
{
	struct sockaddr_in6 at = { 0 };
	struct ibv_port_attr port;

	memcpy(&at, local, local->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(at));
	at.sin6_port = 0; /* at the same place in both */
	if (rdma_create_id(NULL, &qp->id, NULL, RDMA_PS_UDP) ||
	    rdma_bind_addr(qp->id, (struct sockaddr *)&at))
		return errno;
	if (!qp->id->verbs)
		return ENODEV;
	if (ibv_query_port(qp->id->verbs, qp->id->port_num, &port))
		return ENODEV;
	qp->mtu = 128U << port.active_mtu;
	return find_gid(qp);
}

static int make_memory(struct dgram_qp *qp)
{
	size_t len = (size_t)(qp->sq + qp->rq) * ROOM;

	qp->memory = calloc(1, len);
	qp->idle = calloc(qp->sq, sizeof(*qp->idle));
	if (!qp->memory || !qp->idle)
		return ENOMEM;
	for (qp->n_idle = 0; qp->n_idle < qp->sq; qp->n_idle++)
		qp->idle[qp->n_idle] = (uint16_t)(qp->rq + qp->n_idle);
	qp->mr = ibv_reg_mr(qp->id->pd, qp->memory, len, IBV_ACCESS_LOCAL_WRITE);
	return qp->mr ? 0 : errno;
}

static int post_receive(struct dgram_qp *qp, uint32_t i)
{
	struct ibv_sge sge = { (uintptr_t)slot(qp, i), ROOM, qp->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 }, *bad;

	return ibv_post_recv(qp->id->qp, &wr, &bad);
}

static int make_qp(struct dgram_qp *qp)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_UD,
				      .sq_sig_all = 1,
				      .cap = { .max_send_wr = qp->sq,
					       .max_recv_wr = qp->rq,
					       .max_send_sge = 1,
					       .max_recv_sge = 1 } };
	int err = 0;

	qp->channel = ibv_create_comp_channel(qp->id->verbs);
	if (!qp->channel || fcntl(qp->channel->fd, F_SETFL, O_NONBLOCK))
		return errno;
	qp->send_cq = ibv_create_cq(qp->id->verbs, (int)qp->sq, NULL, qp->channel, 0);
	qp->recv_cq = ibv_create_cq(qp->id->verbs, (int)qp->rq, NULL, qp->channel, 0);
	if (!qp->send_cq || !qp->recv_cq)
		return errno;
	a.send_cq = qp->send_cq;
	a.recv_cq = qp->recv_cq;
	if (rdma_create_qp(qp->id, NULL, &a))
		return errno;
	for (uint32_t i = 0; i < qp->rq && !err; i++)
		err = post_receive(qp, i);
	return err;
}

static void gid_of(const struct sockaddr *a, union ibv_gid *out)
{
	memset(out, 0, sizeof(*out));
	if (a->sa_family == AF_INET) {
		out->raw[10] = out->raw[11] = 0xff;
		memcpy(out->raw + 12, &((const struct sockaddr_in *)a)->sin_addr, 4);
	} else {
		memcpy(out->raw, &((const struct sockaddr_in6 *)a)->sin6_addr, 16);
	}
}

int dgram_qp_open(const struct sockaddr *local, uint32_t sq, uint32_t rq, struct dgram_qp **out)
{
	struct dgram_qp *qp = calloc(1, sizeof(*qp));
	int err;

	if (!qp)
		return ENOMEM;
	qp->sq = sq < SENDS ? sq : SENDS;
	qp->rq = rq;
	gid_of(local, &qp->gid);
	say_address(qp);
	err = bind_id(qp, local);
	err = err ? err : make_memory(qp);
	err = err ? err : make_qp(qp);
	if (err)
		dgram_qp_free(qp);
	else
		*out = qp;
	return err;
}

/* --- what it is --- */

const union ibv_gid *dgram_qp_gid(const struct dgram_qp *qp)
{
	return &qp->gid;
}

uint32_t dgram_qp_number(const struct dgram_qp *qp)
{
	return qp->id->qp->qp_num;
}

int dgram_qp_fd(const struct dgram_qp *qp)
{
	return qp->channel->fd;
}

struct ibv_ah *dgram_qp_way(const struct dgram_qp *qp, const union ibv_gid *to)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = qp->id->port_num,
		.grh = { .dgid = *to, .sgid_index = qp->sgid_index, .hop_limit = HOPS }
	};

	return ibv_create_ah(qp->id->pd, &a);
}

/* --- sending --- */

bool dgram_qp_takes(const struct dgram_qp *qp, size_t len)
{
	return qp->n_idle && qp->head.length + len <= qp->mtu;
}

int dgram_qp_send(struct dgram_qp *qp, struct ibv_ah *ah, uint32_t qpn, uint16_t port,
		  const struct msghdr *m)
{
	uint32_t i = qp->idle[qp->n_idle - 1];
	uint8_t *at = slot(qp, i), *p = at + qp->head.length;
	struct ibv_sge sge = { (uintptr_t)at, 0, qp->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = i,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .wr.ud = { ah, qpn, RDMA_UDP_QKEY } },
			   *bad;

	qp->head.port = port;
	memcpy(at, &qp->head, qp->head.length);
	for (size_t k = 0; k < m->msg_iovlen; p += m->msg_iov[k++].iov_len)
		if (m->msg_iov[k].iov_len)
			memcpy(p, m->msg_iov[k].iov_base, m->msg_iov[k].iov_len);
	sge.length = (uint32_t)(p - at);
	if (ibv_post_send(qp->id->qp, &wr, &bad))
		return EIO;
	qp->n_idle--;
	return 0;
}

/* --- receiving --- */

/* Whether that is the sender by the packet's header, too. */
static bool came_from(const uint8_t *grh, const union ibv_gid *gid)
{
	if (is_v4(gid))
		return grh[IPV4_AT] >> 4 == VERSION4 && !memcmp(grh + IPV4_FROM, gid->raw + 12, 4);
	return grh[0] >> 4 == VERSION6 && !memcmp(grh + IPV6_FROM, gid->raw, 16);
}

/* The address by the message's header; false: it has none. */
static bool gid_of_head(const struct head *h, size_t len, union ibv_gid *out)
{
	memset(out, 0, sizeof(*out));
	if (len >= HEAD4 && h->version == VERSION4 && h->length == HEAD4) {
		out->raw[10] = out->raw[11] = 0xff;
		memcpy(out->raw + 12, h->addr, 4);
		return true;
	}
	if (len < HEAD6 || h->version != VERSION6 || h->length != HEAD6)
		return false;
	memcpy(out->raw, h->addr + 4, 16);
	return true;
}

static void on_received(struct dgram_qp *qp, const struct ibv_wc *wc, dgram_got got, void *arg)
{
	const uint8_t *at = slot(qp, (uint32_t)wc->wr_id);
	size_t len = wc->byte_len > GRH ? wc->byte_len - GRH : 0;
	struct dgram_from from = { .qpn = wc->src_qp };
	struct head h = { 0 };

	memcpy(&h, at + GRH, len < sizeof(h) ? len : sizeof(h));
	if (!gid_of_head(&h, len, &from.gid) || !came_from(at, &from.gid))
		return;
	from.port = h.port;
	got(arg, qp, &from, at + GRH + h.length, len - h.length);
}

void dgram_qp_poll(struct dgram_qp *qp, unsigned int max, dgram_got got, void *arg)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(qp->send_cq, 1, &wc) == 1)
		qp->idle[qp->n_idle++] = (uint16_t)wc.wr_id;
	while (max-- && ibv_poll_cq(qp->recv_cq, 1, &wc) == 1) {
		if (!wc.status)
			on_received(qp, &wc, got, arg);
		if (post_receive(qp, (uint32_t)wc.wr_id))
			return;
	}
}

void dgram_qp_arm(struct dgram_qp *qp)
{
	ibv_req_notify_cq(qp->send_cq, 0);
	ibv_req_notify_cq(qp->recv_cq, 0);
}

void dgram_qp_drain(struct dgram_qp *qp)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(qp->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
}
