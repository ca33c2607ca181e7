// SPDX-License-Identifier: MIT
#include "cm/cm_id.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "cm/cm_far.h"
#include "cm/cm_port.h"
#include "cm/cm_watch.h"
#include "obs/explain.h"
#include "util/rand.h"

enum { ID_BITS = 22, ID_MASK = (1 << ID_BITS) - 1 };

static uint64_t mixed(uint64_t a, uint64_t b)
{
	uint64_t x = a, y = b + 1;
	uint64_t key = rand_mix(&x) ^ rand_mix(&y) << 1;

	return key ? key : 1;
}

static uint64_t of_host(const union ibv_gid *from)
{
	uint64_t half[2];

	memcpy(half, from->raw, sizeof(half));
	return mixed(half[0], half[1]);
}

uint64_t cm_id_request_key(const union ibv_gid *from, uint64_t guid, uint32_t comm_id)
{
	return mixed(mixed(of_host(from), guid), comm_id);
}

uint64_t cm_id_question_key(const union ibv_gid *from, uint32_t request_id)
{
	return mixed(of_host(from), UINT64_C(1) << 40 | request_id);
}

uint64_t cm_id_qp_key(const union ibv_gid *from, uint64_t guid, uint32_t qpn)
{
	return mixed(mixed(of_host(from), guid), UINT64_C(1) << 41 | qpn);
}

static uint32_t next_comm_id(void)
{
	uint32_t id;

	do
		id = (uint32_t)cm.slot << ID_BITS | (cm.next_id++ & ID_MASK);
	while (!id || hash_get(&cm.by_id, id));
	return id;
}

int cm_id_new(struct cm_channel *ch, uint32_t ps, int qp_type, struct cm_id **out)
{
	struct cm_id *id = calloc(1, sizeof(*id));
	uint64_t seed = ++cm.serial ^ cm.guid;

	if (!id)
		return refuse_memory("rdma_create_id", sizeof(*id));
	id->epoch = cm.epoch;
	id->channel = ch;
	id->ps = ps;
	id->qp_type = qp_type;
	id->conn.fd = -1;
	id->psn = (uint32_t)rand_mix(&seed) & 0xffffff;
	list_init(&id->joins);
	list_init(&id->query);
	list_init(&id->far_node);
	list_init(&id->flight);
	list_init(&id->listening);
	list_init(&id->owing);
	list_init(&id->requester.node);
	timer_init(&id->timer, NULL);
	cm_fsm_init(&id->fsm, next_comm_id(), cm.guid);
	id->fsm.xrc = qp_type == IBV_QPT_XRC_SEND || qp_type == IBV_QPT_XRC_RECV;
	if (hash_put(&cm.by_id, id->fsm.local_id, id)) {
		free(id);
		return refuse_memory("rdma_create_id", sizeof(*id));
	}
	list_add_tail(&cm.ids, &id->node);
	*out = id;
	return 0;
}

static void forget(struct hash *h, uint64_t key, const struct cm_id *id)
{
	if (key && hash_get(h, key) == id)
		hash_del(h, key);
}

void cm_id_free(struct cm_id *id)
{
	cm_timer(&id->timer, UINT64_MAX);
	cm_unwatch(&id->conn);
	cm_port_free(id);
	forget(&cm.by_id, id->fsm.local_id, id);
	forget(&cm.requests, id->request_key, id);
	forget(&cm.qpns, id->qp_key, id);
	list_del(&id->node);
	list_del(&id->query);
	list_del(&id->flight);
	list_del(&id->listening);
	list_del(&id->owing);
	list_del(&id->requester.node);
	cm_far_leave(id);
	free(id->answer);
	id->answer = NULL;
	id->over = true;
	if (!id->kept)
		free(id);
}
