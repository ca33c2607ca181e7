// SPDX-License-Identifier: MIT
/* Every (type, state, state) move of a QP, with each attribute left out or added: the table is
 * drawn from the specification's (QP state transitions) and ibv_modify_qp(3), not from the
 * library's. A refused call changes nothing. A new service: a row in `services`, a column in the
 * table, a way to each state in reach(). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "verbs/cases.h"

enum { RC, UC, UD, RAW, XS, XR, SERVICES }; /* XS: XRC_SEND, XR: XRC_RECV */

enum { /* of enum ibv_qp_attr_mask; bit 0 is the state itself */
       CUR = IBV_QP_CUR_STATE,
       NOTIFY = IBV_QP_EN_SQD_ASYNC_NOTIFY,
       ACCESS = IBV_QP_ACCESS_FLAGS,
       PKEY = IBV_QP_PKEY_INDEX,
       PORT = IBV_QP_PORT,
       QKEY = IBV_QP_QKEY,
       AV = IBV_QP_AV,
       MTU = IBV_QP_PATH_MTU,
       TIMEOUT = IBV_QP_TIMEOUT,
       RETRY = IBV_QP_RETRY_CNT,
       RNR = IBV_QP_RNR_RETRY,
       RQ_PSN = IBV_QP_RQ_PSN,
       RD = IBV_QP_MAX_QP_RD_ATOMIC,
       ALT = IBV_QP_ALT_PATH,
       RNR_TIMER = IBV_QP_MIN_RNR_TIMER,
       SQ_PSN = IBV_QP_SQ_PSN,
       DEST_RD = IBV_QP_MAX_DEST_RD_ATOMIC,
       MIG = IBV_QP_PATH_MIG_STATE,
       DEST_QPN = IBV_QP_DEST_QPN,
       RATE = IBV_QP_RATE_LIMIT,
       BITS = 26, /* RATE is the last */
};

/* @ignored: attributes that the other half has, which clients give to both. */
static const struct {
	enum ibv_qp_type type;
	const char *name;
	bool no_sqe, no_alternate;
	int ignored;
} services[SERVICES] = {
	[RC] = { IBV_QPT_RC, "RC", .no_sqe = true },
	[UC] = { IBV_QPT_UC, "UC" },
	[UD] = { IBV_QPT_UD, "UD" },
	[RAW] = { IBV_QPT_RAW_PACKET, "RAW_PACKET" },
	[XS] = { IBV_QPT_XRC_SEND, "XRC_SEND", true, true, DEST_RD | RNR_TIMER },
	[XR] = { IBV_QPT_XRC_RECV, "XRC_RECV", true, true, RD | RETRY | RNR },
};

static const char *const states[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };
enum { STATES = IBV_QPS_ERR + 1 };

/* One legal move of one service: what must and what may be given. */
struct row {
	int service;
	enum ibv_qp_state from, to;
	int need, may;
};

#define PATH   (AV | MTU | DEST_QPN | RQ_PSN)
#define RC_RTS (RATE | CUR | ALT | ACCESS | RNR_TIMER | MIG)
#define UC_RTS (RATE | CUR | ALT | ACCESS | MIG)
#define UD_RTS (RATE | CUR | QKEY)
#define XS_RTS (RATE | CUR | ALT | ACCESS | MIG)
#define XR_RTS (CUR | ALT | ACCESS | RNR_TIMER | MIG)
#define RC_DRAIN                                                                                   \
	(PORT | AV | TIMEOUT | RETRY | RNR | RD | DEST_RD | ALT | ACCESS | PKEY | RNR_TIMER | MIG)
#define M(s, a, b, need, may)                                                                      \
	{                                                                                          \
		s, IBV_QPS_##a, IBV_QPS_##b, need, may                                             \
	}
#define ALWAYS(s, a) M(s, a, RESET, 0, 0), M(s, a, ERR, 0, 0)

/* clang-format off */
static const struct row rows[] = {
	M(RC, RESET, RESET, 0, 0), M(UC, RESET, RESET, 0, 0), M(UD, RESET, RESET, 0, 0),
	M(RC, ERR, RESET, 0, 0), M(UC, ERR, RESET, 0, 0), M(UD, ERR, RESET, 0, 0),
	M(RC, ERR, ERR, 0, 0), M(UC, ERR, ERR, 0, 0), M(UD, ERR, ERR, 0, 0),

	M(RC, RESET, INIT, PKEY | PORT | ACCESS, 0),
	M(RC, INIT, INIT, 0, PKEY | PORT | ACCESS),
	M(RC, INIT, RTR, PATH | DEST_RD | RNR_TIMER, ALT | ACCESS | PKEY),
	M(RC, RTR, RTS, TIMEOUT | RETRY | RNR | SQ_PSN | RD, RC_RTS),
	M(RC, RTS, RTS, 0, RC_RTS),
	M(RC, RTS, SQD, 0, NOTIFY),
	M(RC, SQD, SQD, 0, RC_DRAIN),
	M(RC, SQD, RTS, 0, RC_RTS),
	ALWAYS(RC, INIT), ALWAYS(RC, RTR), ALWAYS(RC, RTS), ALWAYS(RC, SQD),

	M(UC, RESET, INIT, PKEY | PORT | ACCESS, 0),
	M(UC, INIT, INIT, 0, PKEY | PORT | ACCESS),
	M(UC, INIT, RTR, PATH, ALT | ACCESS | PKEY),
	M(UC, RTR, RTS, SQ_PSN, UC_RTS),
	M(UC, RTS, RTS, 0, UC_RTS),
	M(UC, RTS, SQD, 0, NOTIFY),
	M(UC, SQD, SQD, 0, AV | ALT | ACCESS | PKEY | MIG),
	M(UC, SQD, RTS, 0, UC_RTS),
	M(UC, SQE, RTS, 0, RATE | CUR | ACCESS),
	ALWAYS(UC, INIT), ALWAYS(UC, RTR), ALWAYS(UC, RTS), ALWAYS(UC, SQD), ALWAYS(UC, SQE),

	M(UD, RESET, INIT, PKEY | PORT | QKEY, 0),
	M(UD, INIT, INIT, 0, PKEY | PORT | QKEY),
	M(UD, INIT, RTR, 0, PKEY | QKEY),
	M(UD, RTR, RTS, SQ_PSN, UD_RTS),
	M(UD, RTS, RTS, 0, UD_RTS),
	M(UD, RTS, SQD, 0, NOTIFY),
	M(UD, SQD, SQD, 0, PKEY | QKEY),
	M(UD, SQD, RTS, 0, UD_RTS),
	M(UD, SQE, RTS, 0, UD_RTS),
	ALWAYS(UD, INIT), ALWAYS(UD, RTR), ALWAYS(UD, RTS), ALWAYS(UD, SQD), ALWAYS(UD, SQE),

	M(RAW, RESET, RESET, 0, 0), M(RAW, ERR, RESET, 0, 0), M(RAW, ERR, ERR, 0, 0),
	M(RAW, RESET, INIT, PORT, 0),
	M(RAW, INIT, INIT, 0, PORT),
	M(RAW, INIT, RTR, 0, 0),
	M(RAW, RTR, RTS, 0, RATE),
	M(RAW, RTS, RTS, 0, RATE),
	M(RAW, RTS, SQD, 0, NOTIFY),
	M(RAW, SQD, SQD, 0, 0),
	M(RAW, SQD, RTS, 0, RATE),
	M(RAW, SQE, RTS, 0, RATE),
	ALWAYS(RAW, INIT), ALWAYS(RAW, RTR), ALWAYS(RAW, RTS), ALWAYS(RAW, SQD), ALWAYS(RAW, SQE),

	M(XS, RESET, RESET, 0, 0), M(XS, ERR, RESET, 0, 0), M(XS, ERR, ERR, 0, 0),
	M(XS, RESET, INIT, PKEY | PORT | ACCESS, 0),
	M(XS, INIT, INIT, 0, PKEY | PORT | ACCESS),
	M(XS, INIT, RTR, PATH, ALT | ACCESS | PKEY),
	M(XS, RTR, RTS, TIMEOUT | RETRY | RNR | SQ_PSN | RD, XS_RTS),
	M(XS, RTS, RTS, 0, XS_RTS),
	M(XS, RTS, SQD, 0, NOTIFY),
	M(XS, SQD, SQD, 0, PORT | AV | TIMEOUT | RETRY | RNR | RD | ALT | ACCESS | PKEY | MIG),
	M(XS, SQD, RTS, 0, XS_RTS),
	ALWAYS(XS, INIT), ALWAYS(XS, RTR), ALWAYS(XS, RTS), ALWAYS(XS, SQD),

	M(XR, RESET, RESET, 0, 0), M(XR, ERR, RESET, 0, 0), M(XR, ERR, ERR, 0, 0),
	M(XR, RESET, INIT, PKEY | PORT | ACCESS, 0),
	M(XR, INIT, INIT, 0, PKEY | PORT | ACCESS),
	M(XR, INIT, RTR, PATH | DEST_RD | RNR_TIMER, ALT | ACCESS | PKEY),
	M(XR, RTR, RTS, TIMEOUT | SQ_PSN, XR_RTS),
	M(XR, RTS, RTS, 0, XR_RTS),
	M(XR, RTS, SQD, 0, NOTIFY),
	M(XR, SQD, SQD, 0, PORT | AV | TIMEOUT | DEST_RD | ALT | ACCESS | PKEY | RNR_TIMER | MIG),
	M(XR, SQD, RTS, 0, XR_RTS),
	ALWAYS(XR, INIT), ALWAYS(XR, RTR), ALWAYS(XR, RTS), ALWAYS(XR, SQD),
};
/* clang-format on */

static const char *name_of(enum ibv_qp_state s)
{
	return (unsigned int)s < STATES ? states[s] : "what is no state";
}

static const struct row *find(int s, enum ibv_qp_state from, enum ibv_qp_state to)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].service == s && rows[i].from == from && rows[i].to == to)
			return &rows[i];
	return NULL;
}

static struct peer_dev dev;
static struct ibv_cq *cq;
static struct ibv_xrcd *domain;
static bool apm; /* the device migrates paths */

static void open_all(void)
{
	struct ibv_xrcd_init_attr x = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, -1,
					O_CREAT };
	struct ibv_device_attr a;

	peer_open(&dev);
	want_eq(ibv_query_device(dev.ctx, &a), 0);
	apm = a.device_cap_flags & IBV_DEVICE_AUTO_PATH_MIG;
	cq = ibv_create_cq(dev.ctx, 64, NULL, NULL, 0);
	domain = ibv_open_xrcd(dev.ctx, &x);
	want(cq && domain);
}

/* Does a QP of the service migrate? */
static bool migrates(int s)
{
	return apm && !services[s].no_alternate;
}

static struct ibv_qp *new_qp(int s)
{
	struct ibv_qp_init_attr init = {
		.qp_type = services[s].type, .send_cq = cq, .recv_cq = cq, .cap = { 2, 2, 1, 1, 0 }
	};
	struct ibv_qp_init_attr_ex target = { .qp_type = IBV_QPT_XRC_RECV,
					      .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					      .xrcd = domain };
	struct ibv_qp *qp =
		s == XR ? ibv_create_qp_ex(dev.ctx, &target) : ibv_create_qp(dev.pd, &init);

	want(qp);
	return qp;
}

/* Good values for everything, and a few that differ from what reach() has set. */
static struct ibv_qp_attr values(const struct ibv_qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = {
		.qp_state = to,
		.cur_qp_state = qp->state,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
		.qkey = 0x22222222,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qp->qp_num,
		.rq_psn = 7,
		.sq_psn = 7,
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 1,
		.timeout = 20,
		.retry_cnt = 1,
		.rnr_retry = 1,
		.path_mig_state = IBV_MIG_MIGRATED,
		.alt_port_num = 1,
		.alt_timeout = 12,
		.ah_attr = { .is_global = 1, .port_num = 1 },
		.cap = { 2, 2, 1, 1, 0 },
	};

	a.ah_attr.grh.dgid = dev.gid;
	a.ah_attr.grh.sgid_index = PEER_GID_INDEX;
	a.ah_attr.grh.hop_limit = 64;
	a.alt_ah_attr = a.ah_attr;
	return a;
}

static int move(struct ibv_qp *qp, enum ibv_qp_state to, int mask)
{
	struct ibv_qp_attr a = values(qp, to);

	return ibv_modify_qp(qp, &a, mask);
}

/* UC, UD and RAW_PACKET come to SQE by a send that fails here. */
static void to_sqe(struct ibv_qp *qp)
{
	struct ibv_sge sg = { (uintptr_t)&dev, 64, PEER_NO_KEY };
	struct ibv_send_wr wr = { .sg_list = &sg, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct peer_addr self = { .gid = dev.gid };
	struct ibv_ah *ah = NULL;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct ibv_wc wc;

	if (qp->qp_type == IBV_QPT_UD) {
		ah = peer_ah(&dev, &self);
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = qp->qp_num;
	}
	want_eq(ibv_post_send(qp, &wr, &bad), 0);
	want(peer_poll(cq, &wc, 10000) && wc.status == IBV_WC_LOC_PROT_ERR);
	want_eq(ibv_query_qp(qp, &a, IBV_QP_STATE, &init), 0);
	want_eq(a.qp_state, IBV_QPS_SQE);
	if (ah)
		want_eq(ibv_destroy_ah(ah), 0);
}

/* A QP of service @s in @state, on the ordinary way there. NULL: nothing leads there. */
static struct ibv_qp *reach(int s, enum ibv_qp_state state)
{
	static const enum ibv_qp_state way[] = { IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS };
	struct ibv_qp *qp;

	if (state == IBV_QPS_SQE && services[s].no_sqe)
		return NULL;
	qp = new_qp(s);
	for (int i = 0; i < 3 && qp->state != state && state != IBV_QPS_RESET; i++) {
		const struct row *r = find(s, qp->state, way[i]);

		want_eq(move(qp, way[i], IBV_QP_STATE | r->need), 0);
		if (state == IBV_QPS_ERR)
			break;
	}
	if (state == IBV_QPS_SQE)
		to_sqe(qp);
	else if (qp->state != state)
		want_eq(move(qp, state, IBV_QP_STATE), 0);
	want_eq(qp->state, state);
	return qp;
}

/* Padding is none of ours: both come from the same call into zeroed memory. */
static struct ibv_qp_attr query(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	memset(&a, 0, sizeof(a));
	want_eq(ibv_query_qp(qp, &a, 0x1ffffff, &init), 0);
	return a;
}

static void refused(int s, enum ibv_qp_state from, enum ibv_qp_state to, int mask, int err)
{
	struct ibv_qp *qp = reach(s, from);
	struct ibv_qp_attr before = query(qp), after;
	int got = move(qp, to, mask);

	peer_note("%s %s to %s, attr_mask 0x%x", services[s].name, name_of(from), name_of(to),
		  mask);
	want_eq(got, err);
	after = query(qp);
	want(!memcmp(&before, &after, sizeof(before)));
	want_eq(ibv_destroy_qp(qp), 0);
}

/* The attributes that were named, and no others. */
static void check_set(const struct ibv_qp_attr *was, const struct ibv_qp_attr *is,
		      const struct ibv_qp_attr *v, int mask)
{
#define SET(bit, member) want_eq(is->member, mask &(bit) ? v->member : was->member)
	SET(PKEY, pkey_index);
	SET(PORT, port_num);
	SET(ACCESS, qp_access_flags);
	SET(QKEY, qkey);
	SET(MTU, path_mtu);
	SET(TIMEOUT, timeout);
	SET(RETRY, retry_cnt);
	SET(RNR, rnr_retry);
	SET(RQ_PSN, rq_psn);
	SET(RD, max_rd_atomic);
	SET(RNR_TIMER, min_rnr_timer);
	SET(SQ_PSN, sq_psn);
	SET(DEST_RD, max_dest_rd_atomic);
	SET(DEST_QPN, dest_qp_num);
	SET(AV, ah_attr.is_global);
	SET(AV, ah_attr.grh.hop_limit);
	SET(ALT, alt_port_num);
	SET(ALT, alt_timeout);
	SET(ALT, alt_ah_attr.grh.hop_limit);
#undef SET
}

static void accepted(const struct row *r, int mask)
{
	struct ibv_qp *qp = reach(r->service, r->from);
	struct ibv_qp_attr v = values(qp, r->to), was = query(qp), is;

	peer_note("%s %s to %s, attr_mask 0x%x", services[r->service].name, name_of(r->from),
		  name_of(r->to), mask);
	want_eq(ibv_modify_qp(qp, &v, mask), 0);
	is = query(qp);
	want_eq(is.qp_state, r->to);
	want_eq(qp->state, r->to);
	if (r->to == IBV_QPS_RESET)
		memset(&was, 0, sizeof(was));
	check_set(&was, &is, &v, mask & ~services[r->service].ignored);
	want_eq(ibv_destroy_qp(qp), 0);
}

static void legal(const struct row *r)
{
	int base = r->need | IBV_QP_STATE;

	accepted(r, base);
	for (int i = 1; i < BITS; i++) {
		int bit = 1 << i;

		if (services[r->service].ignored & bit)
			accepted(r, base | bit);
		else if (r->need & bit)
			refused(r->service, r->from, r->to, base & ~bit, EINVAL);
		else if (!(r->may & bit))
			refused(r->service, r->from, r->to, base | bit, EINVAL);
		else if (bit == ALT && !migrates(r->service))
			refused(r->service, r->from, r->to, base | bit, EOPNOTSUPP);
		else
			accepted(r, base | bit);
	}
	accepted(r, base | (migrates(r->service) ? r->may : r->may & ~ALT));
}

static void illegal(int s, enum ibv_qp_state from, enum ibv_qp_state to)
{
	refused(s, from, to, IBV_QP_STATE, EINVAL);
	/* nor with all that the same target takes elsewhere */
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		if (rows[i].service == s && rows[i].to == to && rows[i].need)
			refused(s, from, to, IBV_QP_STATE | rows[i].need, EINVAL);
}

static void every_move(int s)
{
	struct ibv_qp *qp;

	open_all();
	for (int from = 0; from < STATES; from++) {
		qp = reach(s, (enum ibv_qp_state)from);
		if (!qp)
			continue;
		want_eq(ibv_destroy_qp(qp), 0);
		for (int to = 0; to < STATES; to++) {
			const struct row *r =
				find(s, (enum ibv_qp_state)from, (enum ibv_qp_state)to);

			if (r)
				legal(r);
			else
				illegal(s, (enum ibv_qp_state)from, (enum ibv_qp_state)to);
		}
		refused(s, (enum ibv_qp_state)from, (enum ibv_qp_state)STATES, IBV_QP_STATE,
			EINVAL);
		refused(s, (enum ibv_qp_state)from, (enum ibv_qp_state) - 1, IBV_QP_STATE, EINVAL);
	}
	want_eq(ibv_destroy_cq(cq), 0);
	want_eq(ibv_close_xrcd(domain), 0);
	peer_close(&dev);
}

/* Without IBV_QP_STATE the state stays: the same as a move to itself. */
static void attributes_without_a_state(int s)
{
	open_all();
	for (int state = 0; state < STATES; state++) {
		const struct row *r = find(s, (enum ibv_qp_state)state, (enum ibv_qp_state)state);

		for (int i = 1; i < BITS; i++) {
			int bit = 1 << i;

			if ((state == IBV_QPS_SQE && services[s].no_sqe) ||
			    (bit == ALT && !migrates(s)))
				continue;
			if (r && ((r->may | services[s].ignored) & bit))
				accepted(r, bit);
			else
				refused(s, (enum ibv_qp_state)state, (enum ibv_qp_state)state, bit,
					EINVAL);
		}
	}
}

/* --- values --- */

struct bad_value {
	const char *name;
	int service;
	enum ibv_qp_state from, to;
	int bit;
	void (*set)(struct ibv_qp_attr *a, int value);
	int good, bad; /* the last good and the first bad value */
};

#define SETTER(member)                                                                             \
	static void set_##member(struct ibv_qp_attr *a, int value)                                 \
	{                                                                                          \
		a->member = value;                                                                 \
	}
SETTER(pkey_index)
SETTER(port_num)
SETTER(path_mtu)
SETTER(dest_qp_num)
SETTER(rq_psn)
SETTER(sq_psn)
SETTER(max_rd_atomic)
SETTER(max_dest_rd_atomic)
SETTER(min_rnr_timer)
SETTER(timeout)
SETTER(retry_cnt)
SETTER(rnr_retry)
SETTER(cur_qp_state)
SETTER(qp_access_flags)

static void set_sgid_index(struct ibv_qp_attr *a, int value)
{
	a->ah_attr.grh.sgid_index = value;
}

static void set_ah_port(struct ibv_qp_attr *a, int value)
{
	a->ah_attr.port_num = value;
}

static void set_is_global(struct ibv_qp_attr *a, int value)
{
	a->ah_attr.is_global = value;
}

static void set_path_mig_state(struct ibv_qp_attr *a, int value)
{
	a->path_mig_state = (enum ibv_mig_state)value;
}

#define TO_INIT RC, IBV_QPS_RESET, IBV_QPS_INIT
#define TO_RTR	RC, IBV_QPS_INIT, IBV_QPS_RTR
#define TO_RTS	RC, IBV_QPS_RTR, IBV_QPS_RTS
#define V(m, ...)                                                                                  \
	{                                                                                          \
#m, __VA_ARGS__                                                                    \
	}

/* clang-format off */
static const struct bad_value bad_values[] = {
	V(pkey_index, TO_INIT, PKEY, set_pkey_index, 0, 1),
	V(port_num, TO_INIT, PORT, set_port_num, 1, 0),
	V(port_num, TO_INIT, PORT, set_port_num, 1, 2),
	V(qp_access_flags, TO_INIT, ACCESS, set_qp_access_flags, 0x30f, 1 << 10),
	V(path_mtu, TO_RTR, MTU, set_path_mtu, IBV_MTU_256, 0),
	V(path_mtu, TO_RTR, MTU, set_path_mtu, IBV_MTU_4096, IBV_MTU_4096 + 1),
	V(path_mtu, TO_RTR, MTU, set_path_mtu, IBV_MTU_1024, 1000),
	V(dest_qp_num, TO_RTR, DEST_QPN, set_dest_qp_num, 0xffffff, 0x1000000),
	V(rq_psn, TO_RTR, RQ_PSN, set_rq_psn, 0xffffff, 0x1000000),
	V(max_dest_rd_atomic, TO_RTR, DEST_RD, set_max_dest_rd_atomic, 16, 17),
	V(min_rnr_timer, TO_RTR, RNR_TIMER, set_min_rnr_timer, 31, 32),
	V(ah_attr.port_num, TO_RTR, AV, set_ah_port, 1, 2),
	V(ah_attr.grh.sgid_index, TO_RTR, AV, set_sgid_index, 3, 16),
	V(ah_attr.is_global, TO_RTR, AV, set_is_global, 1, 0),
	V(sq_psn, TO_RTS, SQ_PSN, set_sq_psn, 0xffffff, 0x1000000),
	V(max_rd_atomic, TO_RTS, RD, set_max_rd_atomic, 16, 17),
	V(timeout, TO_RTS, TIMEOUT, set_timeout, 31, 32),
	V(retry_cnt, TO_RTS, RETRY, set_retry_cnt, 7, 8),
	V(rnr_retry, TO_RTS, RNR, set_rnr_retry, 7, 8),
	V(cur_qp_state, TO_RTS, CUR, set_cur_qp_state, IBV_QPS_RTR, IBV_QPS_RTS),
	V(path_mig_state, TO_RTS, MIG, set_path_mig_state, IBV_MIG_MIGRATED, 3),
};
/* clang-format on */

static void one_value(const struct bad_value *b)
{
	const struct row *r = find(b->service, b->from, b->to);
	struct ibv_qp *qp = reach(b->service, b->from);
	struct ibv_qp_attr v = values(qp, b->to), was = query(qp), is;

	peer_note("%s %d", b->name, b->bad);
	b->set(&v, b->bad);
	want_errno(ibv_modify_qp(qp, &v, IBV_QP_STATE | r->need | b->bit), EINVAL);
	is = query(qp);
	want(!memcmp(&was, &is, sizeof(is)));
	peer_note("%s %d", b->name, b->good);
	b->set(&v, b->good);
	want_eq(ibv_modify_qp(qp, &v, IBV_QP_STATE | r->need | b->bit), 0);
	want_eq(ibv_destroy_qp(qp), 0);
}

static void values_at_their_edges(int arg)
{
	(void)arg;
	open_all();
	for (size_t i = 0; i < sizeof(bad_values) / sizeof(bad_values[0]); i++)
		one_value(&bad_values[i]);
}

/* Who sends nothing is not slowed down. */
static void rate_of_a_target(int arg)
{
	struct ibv_qp_rate_limit_attr rate = { .rate_limit = 1000 };
	struct ibv_qp *qp;

	(void)arg;
	open_all();
	qp = reach(XR, IBV_QPS_RTS);
	want_errno(ibv_modify_qp_rate_limit(qp, &rate), EINVAL);
	want_eq(ibv_destroy_qp(qp), 0);
	qp = reach(XS, IBV_QPS_RTS);
	want_eq(ibv_modify_qp_rate_limit(qp, &rate), 0);
	want_eq(query(qp).rate_limit, 1000);
	want_eq(ibv_destroy_qp(qp), 0);
}

static const struct test_case cases[] = {
	{ "every move of RC QPs", every_move, RC },
	{ "every move of UC QPs", every_move, UC },
	{ "every move of UD QPs", every_move, UD },
	{ "every move of RAW_PACKET QPs", every_move, RAW },
	{ "every move of XRC_SEND QPs", every_move, XS },
	{ "every move of XRC_RECV QPs", every_move, XR },
	{ "attributes of RC QPs without a state", attributes_without_a_state, RC },
	{ "attributes of UC QPs without a state", attributes_without_a_state, UC },
	{ "attributes of UD QPs without a state", attributes_without_a_state, UD },
	{ "attributes of RAW_PACKET QPs without a state", attributes_without_a_state, RAW },
	{ "attributes of XRC_SEND QPs without a state", attributes_without_a_state, XS },
	{ "attributes of XRC_RECV QPs without a state", attributes_without_a_state, XR },
	CASE(rate_of_a_target),
	CASE(values_at_their_edges),
};

int main(void)
{
	return CASES_RUN(cases);
}
