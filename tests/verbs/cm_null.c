// SPDX-License-Identifier: MIT
/* NULL where calls of librdmacm want memory: the errno of rdma-core and the kernel behind it. Where
 * they would crash it is EINVAL, and of a socket's call EFAULT, as of the kernel's sockets. And
 * padding that no program sets. */
#include <errno.h>
#include <netinet/in.h>
#include <rdma/rdma_verbs.h>
#include <stddef.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/sockets.h"

static struct rdma_event_channel *channel;

static struct rdma_cm_id *made(enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	channel = channel ? channel : rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &id, NULL, ps), 0);
	return id;
}

static struct rdma_cm_event *next(enum rdma_cm_event_type type)
{
	struct rdma_cm_event *e;

	want_eq(rdma_get_cm_event(channel, &e), 0);
	want_eq(e->event, type);
	return e;
}

static void passes(enum rdma_cm_event_type type)
{
	want_eq(rdma_ack_cm_event(next(type)), 0);
}

/* The kernel copies the value before it looks at level, name and length. */
static void values_of_options(int arg)
{
	static const struct {
		int level, name;
		size_t len;
	} options[] = {
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 1 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 1 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, sizeof(int) },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, sizeof(int) },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 3 },
		{ RDMA_OPTION_ID, 99, 7 },
		{ RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, sizeof(struct ibv_path_data) },
	};
	struct rdma_cm_id *id = made(RDMA_PS_TCP);

	(void)arg;
	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		want_minus1(rdma_set_option(id, options[i].level, options[i].name, NULL,
					    options[i].len),
			    EFAULT);
	want_minus1(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, NULL, 0), EINVAL);
}

static void results(int arg)
{
	struct rdma_cm_id *id = made(RDMA_PS_UDP), *sync;
	struct sockaddr_in at = any_port();
	struct rdma_addrinfo hints = { .ai_dst_addr = (struct sockaddr *)&at,
				       .ai_dst_len = sizeof(at),
				       .ai_port_space = RDMA_PS_TCP,
				       .ai_qp_type = IBV_QPT_RC,
				       .ai_connect_len = 8 };
	struct rdma_cm_event *e;
	int mask;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };

	(void)arg;
	want_minus1(rdma_create_id(channel, NULL, NULL, RDMA_PS_TCP), EINVAL);
	want_minus1(rdma_get_cm_event(channel, NULL), EINVAL);
	want_minus1(rdma_get_cm_event(NULL, &e), EINVAL);
	want_minus1(rdma_ack_cm_event(NULL), EINVAL);
	want_minus1(rdma_bind_addr(id, NULL), EINVAL);
	want_minus1(rdma_resolve_addr(id, NULL, NULL, 1000), EINVAL);
	want_minus1(rdma_create_qp(id, NULL, NULL), EINVAL);
	want_minus1(rdma_create_qp_ex(id, NULL), EINVAL);
	want_minus1(rdma_create_srq(id, NULL, NULL), EINVAL);
	want_minus1(rdma_create_srq_ex(id, NULL), EINVAL);
	want_minus1(rdma_init_qp_attr(id, NULL, &mask), EINVAL);
	want_minus1(rdma_init_qp_attr(id, &attr, NULL), EINVAL);
	want_minus1(rdma_join_multicast(id, NULL, NULL), EINVAL);
	want_minus1(rdma_join_multicast_ex(id, NULL, NULL), EINVAL);
	want_minus1(rdma_leave_multicast(id, NULL), EINVAL);
	want_minus1(rdma_set_local_ece(id, NULL), EINVAL);
	want_minus1(rdma_get_remote_ece(id, NULL), EINVAL);
	want_minus1(rdma_getaddrinfo(NULL, NULL, NULL, NULL), EINVAL);
	want_minus1(rdma_getaddrinfo("127.0.0.1", "7471", NULL, NULL), EINVAL);
	want_minus1(rdma_create_ep(NULL, &hints, NULL, NULL), EINVAL);
	want_minus1(rdma_create_ep(&sync, NULL, NULL, NULL), EINVAL);
	want_minus1(rdma_create_ep(&sync, &hints, NULL, NULL), EINVAL);
	want_eq(rdma_create_id(NULL, &sync, NULL, RDMA_PS_TCP), 0);
	want_minus1(rdma_get_request(sync, NULL), EINVAL);
	want_eq(rdma_destroy_id(sync), 0);
	want_eq(rdma_destroy_id(id), 0);
	rdma_free_devices(NULL);
	rdma_freeaddrinfo(NULL);
	rdma_destroy_ep(NULL);
	rdma_destroy_event_channel(NULL);
}

/* Its length counts for nothing then: of a request, of an answer, of a refusal. */
static void private_data(int ece)
{
	struct rdma_conn_param p = { .private_data_len = 40, .qp_num = 77 };
	struct rdma_cm_id *listening = made(RDMA_PS_TCP), *active = made(RDMA_PS_TCP);
	static const uint8_t zero[148];
	struct sockaddr_in at = any_port();
	struct rdma_cm_event *e;
	struct rdma_cm_id *passive;

	want_eq(rdma_bind_addr(listening, (struct sockaddr *)&at), 0);
	want_eq(rdma_listen(listening, 1), 0);
	at.sin_port = rdma_get_src_port(listening);
	want_eq(rdma_resolve_addr(active, NULL, (struct sockaddr *)&at, 1000), 0);
	passes(RDMA_CM_EVENT_ADDR_RESOLVED);
	want_eq(rdma_resolve_route(active, 1000), 0);
	passes(RDMA_CM_EVENT_ROUTE_RESOLVED);
	want_eq(rdma_connect(active, &p), 0);
	e = next(RDMA_CM_EVENT_CONNECT_REQUEST);
	passive = e->id;
	want(!memcmp(e->param.conn.private_data, zero, 56));
	want_eq(rdma_ack_cm_event(e), 0);
	want_eq(ece ? rdma_reject_ece(passive, NULL, 40) : rdma_reject(passive, NULL, 40), 0);
	e = next(RDMA_CM_EVENT_REJECTED);
	want(!memcmp(e->param.conn.private_data, zero, sizeof(zero)));
	want_eq(rdma_ack_cm_event(e), 0);
	want_eq(rdma_destroy_id(passive), 0);
	want_eq(rdma_destroy_id(active), 0);
	want_eq(rdma_destroy_id(listening), 0);
}

/* The plain structs end where the extended ones have comp_mask: a caller leaves anything there. */
static void padding_is_not_read(int arg)
{
	union {
		struct ibv_srq_init_attr attr;
		uint8_t bytes[sizeof(struct ibv_srq_init_attr_ex)];
	} s;
	union {
		struct ibv_qp_init_attr attr;
		uint8_t bytes[sizeof(struct ibv_qp_init_attr_ex)];
	} q;
	struct rdma_cm_id *id = made(RDMA_PS_TCP);
	struct sockaddr_in at = any_port();

	(void)arg;
	want_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 1000), 0);
	passes(RDMA_CM_EVENT_ADDR_RESOLVED);
	memset(&s, 0xff, sizeof(s));
	s.attr.srq_context = &s;
	s.attr.attr = (struct ibv_srq_attr){ .max_wr = 4, .max_sge = 1 };
	want_eq(rdma_create_srq(id, NULL, &s.attr), 0);
	want(id->srq && id->srq->srq_context == &s);
	q.attr = (struct ibv_qp_init_attr){ .qp_context = &q,
					    .cap = { 1, 1, 1, 1, 0 },
					    .qp_type = IBV_QPT_RC };
	memset(q.bytes + offsetof(struct ibv_qp_init_attr_ex, comp_mask), 0xff,
	       sizeof(q) - offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	want_eq(rdma_create_qp(id, NULL, &q.attr), 0);
	want(id->qp->qp_context == &q && id->qp->srq == id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	want_eq(rdma_destroy_id(id), 0);
}

static void buffers_of(int fd)
{
	struct iovec nowhere = { NULL, 4 }, empty = { NULL, 0 };
	struct msghdr none = { .msg_iovlen = 1 }, m = { .msg_iov = &nowhere, .msg_iovlen = 1 };

	want_minus1(rsend(fd, NULL, 1, 0), EFAULT);
	want_minus1(rwrite(fd, NULL, 1), EFAULT);
	want_minus1(rwritev(fd, &nowhere, 1), EFAULT);
	want_minus1(rwritev(fd, NULL, 1), EFAULT);
	want_minus1(rsendmsg(fd, NULL, 0), EFAULT);
	want_minus1(rsendmsg(fd, &none, 0), EFAULT);
	want_minus1(rsendmsg(fd, &m, 0), EFAULT);
	want_minus1(rrecv(fd, NULL, 1, 0), EFAULT);
	want_minus1(rread(fd, NULL, 1), EFAULT);
	want_minus1(rreadv(fd, &nowhere, 1), EFAULT);
	want_minus1(rreadv(fd, NULL, 1), EFAULT);
	want_minus1(rrecvmsg(fd, NULL, 0), EFAULT);
	want_minus1(rrecvmsg(fd, &none, 0), EFAULT);
	want_eq(rwritev(fd, &empty, 1), 0);
}

static void buffers_of_sockets(int arg)
{
	struct pollfd none = { .fd = -1 };
	socklen_t len = 4;
	int near, far, n;

	(void)arg;
	iomaps = 4;
	connected(&near, &far);
	buffers_of(near);
	want_eq(rsend(near, NULL, 0, 0), 0);
	want_eq(rrecv(near, NULL, 0, 0), 0);
	want_minus1(riowrite(near, NULL, 1, 0, 0), EFAULT);
	want_minus1(rsetsockopt(near, IPPROTO_TCP, 1, NULL, sizeof(int)), EFAULT);
	want_minus1(rgetsockopt(near, IPPROTO_TCP, 1, NULL, &len), EFAULT);
	want_minus1(rgetsockopt(near, IPPROTO_TCP, 1, &n, NULL), EFAULT);
	want_minus1(rgetsockname(near, NULL, &len), EFAULT);
	want_minus1(rgetpeername(near, NULL, &len), EFAULT);
	want_minus1(rpoll(NULL, 1, 0), EFAULT);
	want_minus1(rpoll(NULL, 100, 0), EFAULT);
	want_eq(rpoll(NULL, 0, 0), 0);
	want_eq(rpoll(&none, 1, 0), 0);
	want_eq(rclose(near), 0);
	want_eq(rclose(far), 0);
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(values_of_options),
		CASE(results),
		{ "private_data", private_data, 0 },
		{ "private_data (ECE)", private_data, 1 },
		CASE(padding_is_not_read),
		CASE(buffers_of_sockets),
	};

	return CASES_RUN(list);
}
