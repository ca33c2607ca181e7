// SPDX-License-Identifier: MIT
/* A device without a node: one context on a port whose GID table has entries 0..3. */
#pragma once
#include "test.h"
#include <errno.h>
#include <infiniband/verbs.h>
#include "hca/device.h"
#include "hca/key_table.h"
#include "hca/limits.h"
#include "hca/mcast.h"
#include "hca/pd.h"
#include "obs/explain.h"
#include "util/fork.h"

enum { FIXTURE_GIDS = 4 };

struct fixture {
	struct hca hca;
	struct context *ctx;
	struct pd *pd;
	bool up;
	enum ibv_mtu mtu;
};

static inline int fixture_gid(void *arg, unsigned int index, union ibv_gid *gid, bool *v2,
			      uint32_t *ifindex)
{
	(void)arg;
	if (index >= LIMIT_GIDS)
		return EINVAL;
	memset(gid, 0, sizeof(*gid));
	*v2 = index & 1;
	*ifindex = 1;
	if (index < FIXTURE_GIDS)
		gid->raw[0] = 0xfe;
	gid->raw[15] = gid->raw[0] ? (uint8_t)(1 + index) : 0;
	return 0;
}

static inline bool fixture_active(void *arg)
{
	return ((struct fixture *)arg)->up;
}

static inline enum ibv_mtu fixture_mtu(void *arg)
{
	return ((struct fixture *)arg)->mtu;
}

static inline void fixture_mac(void *arg, uint8_t mac[6])
{
	(void)arg;
	memset(mac, 2, 6);
}

static const struct hca_ports fixture_ports = { fixture_gid, fixture_active, fixture_mtu,
						fixture_mac };

static inline struct fixture *fixture_open(uint32_t n_keys)
{
	struct fixture *f = calloc(1, sizeof(*f));

	check_eq(fork_init(), 0);
	*f = (struct fixture){ .up = true, .mtu = IBV_MTU_1024 };
	snprintf(f->hca.name, sizeof(f->hca.name), "mlx5_0");
	f->hca.epoch = fork_epoch();
	f->hca.ports = &fixture_ports;
	f->hca.ports_arg = f;
	f->hca.node_guid = 0x0123456789abcdefULL;
	check_eq(key_table_create(NULL, n_keys, &f->hca.keys), 0);
	check_eq(mcast_table_create(&f->hca.mcast), 0);
	check_eq(context_create(&f->hca, NULL, &f->ctx), 0);
	check_eq(pd_create(f->ctx, &f->pd), 0);
	return f;
}

static inline void fixture_close(struct fixture *f)
{
	check_eq(pd_destroy(f->pd), 0);
	context_destroy(f->ctx);
	mcast_table_destroy(f->hca.mcast);
	key_table_destroy(f->hca.keys);
	free(f);
}

/* The reason of the last refusal has @word in it. */
static inline void check_reason(const char *word)
{
	char text[EXPLAIN_TEXT];

	check_eq(explain_last(text, sizeof(text)), 0);
	if (!strstr(text, word))
		fail_msg("'%s' is not in '%s'", word, text);
}
