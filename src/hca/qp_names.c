// SPDX-License-Identifier: MIT
#include "hca/qp_names.h"
#include "hca/service.h"

const char *qp_state_name(enum ibv_qp_state s)
{
	static const char *const names[] = { "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR" };

	return (unsigned int)s < sizeof(names) / sizeof(names[0]) ? names[s] : "UNKNOWN";
}

const char *qp_type_name(enum ibv_qp_type t)
{
	const struct service *s = service_find(t);

	if (t == IBV_QPT_DRIVER) /* gate: services: the one type that several services share */
		return "DC";
	return s ? s->name : "unknown";
}
