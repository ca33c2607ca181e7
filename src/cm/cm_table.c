// SPDX-License-Identifier: MIT
#include "cm/cm_call.h"
#include "cm/cm_event.h"

const struct cm_calls *cm_table(void)
{
	static const struct cm_calls calls = {
		.channel_create = cm_call_channel_create,
		.channel_destroy = cm_call_channel_destroy,
		.next_event = cm_channel_next,
		.id_create = cm_call_id_create,
		.id_destroy = cm_call_id_destroy,
		.id_release = cm_call_id_release,
		.set_owner = cm_call_set_owner,
		.migrate = cm_call_migrate,
		.view = cm_call_view,
		.bind = cm_call_bind,
		.listen = cm_call_listen,
		.resolve_addr = cm_call_resolve_addr,
		.resolve_route = cm_call_resolve_route,
		.connect = cm_call_connect,
		.accept = cm_call_accept,
		.reject = cm_call_reject,
		.establish = cm_call_establish,
		.disconnect = cm_call_disconnect,
		.notify = cm_call_notify,
		.qp_attr = cm_call_qp_attr,
		.set_option = cm_call_set_option,
		.join = cm_call_join,
		.leave = cm_call_leave,
		.write_event = cm_call_write_event,
	};

	return &calls;
}
