// SPDX-License-Identifier: MIT
/* The mlx5dv_wr_* calls that set up mkeys: each builds one UMR work request in the batch
 * (wqe_build.h). The new ones begin it by mlx5dv_wr_mkey_configure() and fill it by as many setters
 * as that announced; until the last of them it stands in a buffer of its own. */
#pragma once
#include "driver/dqp.h"

/* Sets the functions, on an RC queue pair. */
void wr_mkey_attach(struct dqp *qp);
