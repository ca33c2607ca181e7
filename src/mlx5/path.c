// SPDX-License-Identifier: MIT
/* Which way packets take: ports of a bond, source ports, congestion control by address. */
#include <infiniband/mlx5dv.h>
#include "mlx5/given.h"

#define QPN_MAX 0xffffffU

static int no_bond(const char *call)
{
	return softhca_refuse(EOPNOTSUPP,
			      "%s: the device is no bond of ports (num_lag_ports is 1); the kernel "
			      "chooses the port of a bond below an interface",
			      call);
}

EXPORT int mlx5dv_query_qp_lag_port(struct ibv_qp *qp, uint8_t *port, uint8_t *active)
{
	int err = given(qp, "mlx5dv_query_qp_lag_port", "the queue pair");

	err = err ? err : given(port, "mlx5dv_query_qp_lag_port", "the place of the port");
	err = err ? err : given(active, "mlx5dv_query_qp_lag_port", "the place of the active port");
	err = err ? err : softhca_qp_alive(qp, "mlx5dv_query_qp_lag_port");
	return positive_errno(err ? err : no_bond("mlx5dv_query_qp_lag_port"));
}

EXPORT int mlx5dv_modify_qp_lag_port(struct ibv_qp *qp, uint8_t port)
{
	int err = given(qp, "mlx5dv_modify_qp_lag_port", "the queue pair");

	(void)port;
	err = err ? err : softhca_qp_alive(qp, "mlx5dv_modify_qp_lag_port");
	return positive_errno(err ? err : no_bond("mlx5dv_modify_qp_lag_port"));
}

EXPORT int mlx5dv_modify_qp_udp_sport(struct ibv_qp *qp, uint16_t udp_sport)
{
	int err = given(qp, "mlx5dv_modify_qp_udp_sport", "the queue pair");

	if (!err && !udp_sport)
		err = softhca_refuse(EINVAL, "mlx5dv_modify_qp_udp_sport: port 0; nothing is sent "
					     "from there, choose another");
	return positive_errno(err ? err : softhca_qp_udp_sport(qp, udp_sport));
}

/* A hint: what goes to this address is slowed as it is for the queue pair. There is one kind of
 * congestion control here, which ECE does not change, so this is so already. Every address handle
 * of RoCE has a GRH. */
EXPORT int mlx5dv_map_ah_to_qp(struct ibv_ah *ah, uint32_t qpn)
{
	int err = given(ah, "mlx5dv_map_ah_to_qp", "the address handle");

	if (!err && qpn > QPN_MAX)
		err = softhca_refuse(
			EINVAL,
			"mlx5dv_map_ah_to_qp: 0x%x is no number of a queue pair; these "
			"have 24 bits",
			qpn);
	return positive_errno(err ? err : softhca_ah_alive(ah, "mlx5dv_map_ah_to_qp"));
}
