// SPDX-License-Identifier: MIT
#include "hca/qp_attrs.h"
#include <errno.h>
#include <stdio.h>
#include "hca/ah.h"
#include "hca/limits.h"
#include "hca/qp.h"
#include "obs/explain.h"

#define OPTIONAL_ACCESS 0x3ff00000U /* bits 20..29 may always be ignored */
/* IBV_ACCESS_LOCAL_WRITE .. IBV_ACCESS_FLUSH_PERSISTENT. A QP may allow its peer to flush where the
 * adapter cannot: Linux and its drivers keep such bits, and no FLUSH is ever answered. */
#define ACCESS_FLAGS 0x3ffU

static const char *const names[] = {
	"IBV_QP_STATE",
	"IBV_QP_CUR_STATE",
	"IBV_QP_EN_SQD_ASYNC_NOTIFY",
	"IBV_QP_ACCESS_FLAGS",
	"IBV_QP_PKEY_INDEX",
	"IBV_QP_PORT",
	"IBV_QP_QKEY",
	"IBV_QP_AV",
	"IBV_QP_PATH_MTU",
	"IBV_QP_TIMEOUT",
	"IBV_QP_RETRY_CNT",
	"IBV_QP_RNR_RETRY",
	"IBV_QP_RQ_PSN",
	"IBV_QP_MAX_QP_RD_ATOMIC",
	"IBV_QP_ALT_PATH",
	"IBV_QP_MIN_RNR_TIMER",
	"IBV_QP_SQ_PSN",
	"IBV_QP_MAX_DEST_RD_ATOMIC",
	"IBV_QP_PATH_MIG_STATE",
	"IBV_QP_CAP",
	"IBV_QP_DEST_QPN",
};
enum { NAMES = sizeof(names) / sizeof(names[0]) };

const char *qp_attrs_text(int mask, char *buf, size_t n)
{
	unsigned int rest = (unsigned int)mask & ~((1U << NAMES) - 1);
	size_t at = 0;

	buf[0] = 0;
	for (unsigned int i = 0; i < NAMES && at < n; i++)
		if (mask & 1 << i)
			at += (size_t)snprintf(buf + at, n - at, "%s%s", at ? ", " : "", names[i]);
	if (rest == IBV_QP_RATE_LIMIT && at < n)
		snprintf(buf + at, n - at, "%sIBV_QP_RATE_LIMIT", at ? ", " : "");
	else if (rest && at < n)
		snprintf(buf + at, n - at, "%s0x%x", at ? ", " : "", rest);
	return buf;
}

struct range {
	int bit;
	const char *member;
	uint32_t value, min, max;
};

static int range_check(const struct range *r, uint32_t qpn)
{
	if (r->value >= r->min && r->value <= r->max)
		return 0;
	if (r->min == r->max)
		return refuse(EINVAL, "ibv_modify_qp: QP 0x%x: %s is %u, it must be %u", qpn,
			      r->member, r->value, r->min);
	return refuse(EINVAL, "ibv_modify_qp: QP 0x%x: %s is %u, outside %u..%u; set it inside",
		      qpn, r->member, r->value, r->min, r->max);
}

static int ranges_check(uint32_t qpn, const struct ibv_qp_attr *a, int mask)
{
	const struct range ranges[] = {
		{ IBV_QP_PKEY_INDEX, "pkey_index", a->pkey_index, 0, LIMIT_PKEYS - 1 },
		{ IBV_QP_PORT, "port_num", a->port_num, 1, 1 },
		{ IBV_QP_ALT_PATH, "alt_pkey_index", a->alt_pkey_index, 0, LIMIT_PKEYS - 1 },
		{ IBV_QP_ALT_PATH, "alt_port_num", a->alt_port_num, 1, 1 },
		{ IBV_QP_ALT_PATH, "alt_timeout", a->alt_timeout, 0, 31 },
		{ IBV_QP_PATH_MTU, "path_mtu", a->path_mtu, IBV_MTU_256, IBV_MTU_4096 },
		{ IBV_QP_TIMEOUT, "timeout", a->timeout, 0, 31 },
		{ IBV_QP_RETRY_CNT, "retry_cnt", a->retry_cnt, 0, 7 },
		{ IBV_QP_RNR_RETRY, "rnr_retry", a->rnr_retry, 0, 7 },
		{ IBV_QP_RQ_PSN, "rq_psn", a->rq_psn, 0, 0xffffff },
		{ IBV_QP_SQ_PSN, "sq_psn", a->sq_psn, 0, 0xffffff },
		{ IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", a->max_rd_atomic, 0, LIMIT_RD_ATOMIC },
		{ IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", a->max_dest_rd_atomic, 0,
		  LIMIT_RD_ATOMIC },
		{ IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", a->min_rnr_timer, 0, 31 },
		{ IBV_QP_PATH_MIG_STATE, "path_mig_state", a->path_mig_state, IBV_MIG_MIGRATED,
		  IBV_MIG_ARMED },
		{ IBV_QP_RATE_LIMIT, "rate_limit", a->rate_limit, 0, LIMIT_RATE },
		{ IBV_QP_DEST_QPN, "dest_qp_num", a->dest_qp_num, 0, 0xffffff },
	};
	int err = 0;

	for (unsigned int i = 0; i < sizeof(ranges) / sizeof(ranges[0]) && !err; i++)
		if (mask & ranges[i].bit)
			err = range_check(&ranges[i], qpn);
	return err;
}

static int access_check(uint32_t qpn, unsigned int access)
{
	unsigned int unknown = access & ~(ACCESS_FLAGS | OPTIONAL_ACCESS);

	if (!unknown)
		return 0;
	return refuse(EINVAL,
		      "ibv_modify_qp: QP 0x%x: qp_access_flags 0x%x has unknown bits 0x%x; use "
		      "IBV_ACCESS_* flags",
		      qpn, access, unknown);
}

/* Of a DC initiator each work request names the peer, and those of a target name themselves. */
static int path_check(const struct qp *qp, const struct ibv_ah_attr *ah)
{
	if (qp->service->wqe == WQE_DC)
		return ah_source_check(qp->ctx->hca, ah, "ibv_modify_qp");
	return ah_attr_check(qp->ctx->hca, ah, "ibv_modify_qp");
}

int qp_attrs_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	int err = ranges_check(qp->qpn, attr, mask);

	if (!err && (mask & IBV_QP_ACCESS_FLAGS))
		err = access_check(qp->qpn, attr->qp_access_flags);
	if (!err && (mask & IBV_QP_AV))
		err = path_check(qp, &attr->ah_attr);
	if (!err && (mask & IBV_QP_ALT_PATH))
		err = path_check(qp, &attr->alt_ah_attr);
	return err;
}

static void set_path(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_AV)
		to->ah_attr = from->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = from->path_mtu;
	if (mask & IBV_QP_ALT_PATH) {
		to->alt_ah_attr = from->alt_ah_attr;
		to->alt_pkey_index = from->alt_pkey_index;
		to->alt_port_num = from->alt_port_num;
		to->alt_timeout = from->alt_timeout;
	}
	if (mask & IBV_QP_PATH_MIG_STATE)
		to->path_mig_state = from->path_mig_state;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = from->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = from->rq_psn;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = from->sq_psn;
}

static void set_retries(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = from->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = from->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = from->rnr_retry;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = from->min_rnr_timer;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = from->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = from->max_dest_rd_atomic;
}

void qp_attrs_set(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask)
{
	if (mask & IBV_QP_PKEY_INDEX)
		to->pkey_index = from->pkey_index;
	if (mask & IBV_QP_PORT)
		to->port_num = from->port_num;
	if (mask & IBV_QP_QKEY)
		to->qkey = from->qkey;
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = from->qp_access_flags;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		to->en_sqd_async_notify = from->en_sqd_async_notify;
	if (mask & IBV_QP_RATE_LIMIT)
		to->rate_limit = from->rate_limit;
	set_path(to, from, mask);
	set_retries(to, from, mask);
}
