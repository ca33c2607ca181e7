// SPDX-License-Identifier: MIT
/* The attributes of a modify call: their names, the range of each, and how they are written. */
#pragma once
#include <stddef.h>
#include "hca/device.h"

struct qp;

/* "IBV_QP_AV, IBV_QP_PATH_MTU" for the bits of @mask; returns @buf. */
const char *qp_attrs_text(int mask, char *buf, size_t n);
/* Checks that every attribute that @mask names is in its range. EINVAL, or EOPNOTSUPP for a value
 * that is not built, with a reason that names @qp and the member. */
int qp_attrs_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask);
/* Copies what @mask names, but for the states. */
void qp_attrs_set(struct ibv_qp_attr *to, const struct ibv_qp_attr *from, int mask);
