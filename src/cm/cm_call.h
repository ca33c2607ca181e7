// SPDX-License-Identifier: MIT
/* The calls of the table (cm.h), by what they are about. Each takes cm.lock itself. */
#pragma once
#include "cm/cm_watch.h"

/* cm_life.c */
int cm_call_channel_create(struct cm_channel **out, int *fd);
void cm_call_channel_destroy(struct cm_channel *ch);
int cm_call_id_create(struct cm_channel *ch, void *owner, uint32_t ps, int qp_type,
		      struct cm_id **out);
int cm_call_id_destroy(struct cm_id *id, uint32_t *fetched);
void cm_call_id_release(struct cm_id *id);
int cm_call_set_owner(struct cm_id *id, void *owner, struct cm_channel *ch);
int cm_call_migrate(struct cm_id *id, struct cm_channel *to, uint32_t *fetched);
int cm_call_view(struct cm_id *id, struct cm_view *out);
/* exit(): peers on networks are told, each once. Peers on this host see it by themselves. */
void cm_call_farewell(void);
int cm_call_write_event(struct cm_id *id, int event, int status, uint64_t arg);

/* cm_resolve.c */
int cm_call_bind(struct cm_id *id, const struct sockaddr *addr);
int cm_call_listen(struct cm_id *id, int backlog);
int cm_call_resolve_addr(struct cm_id *id, const struct sockaddr *src, const struct sockaddr *dst,
			 int ms);
int cm_call_resolve_route(struct cm_id *id, int ms);
int cm_call_set_option(struct cm_id *id, int level, int name, const void *val, size_t len);

/* cm_connect.c */
int cm_call_connect(struct cm_id *id, const struct cm_param *p);
int cm_call_accept(struct cm_id *id, const struct cm_param *p);
int cm_call_reject(struct cm_id *id, const void *data, size_t len, bool ece);
int cm_call_establish(struct cm_id *id);
int cm_call_disconnect(struct cm_id *id, bool *follows);
int cm_call_notify(struct cm_id *id, enum ibv_event_type event);

/* cm_attr.c */
int cm_call_qp_attr(struct cm_id *id, struct ibv_qp_attr *attr, int *mask);

/* cm_join.c */
int cm_call_join(struct cm_id *id, const struct sockaddr *group, bool send_only, uint32_t qkey,
		 void *context);
int cm_call_leave(struct cm_id *id, const struct sockaddr *group, void **context, bool *fetched);
void cm_joins_free(struct cm_id *id); /* under cm.lock */
