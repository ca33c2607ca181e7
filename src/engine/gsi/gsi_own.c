// SPDX-License-Identifier: MIT
#include "engine/gsi/gsi_own.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "engine/gsi/gsi.h"
#include "net/gid.h"
#include "util/barrier.h"
#include "util/be.h"
#include "util/fork.h"
#include "util/rand.h"

enum { PORTS = 64, KEPT = 16 };

static struct {
	uint32_t epoch; /* of the process that has opened it; published last; atomic */
	unsigned int slot;
	int out; /* a socket to gsi_own_open()'s *in */
	gsi_own_hear *hear;
	uint64_t ports[PORTS]; /* keys of the ports that it owns; 0: free; atomic */
} own = { .out = -1 };

/* The engine thread's. */
static struct {
	uint32_t epoch; /* of the process whose thread keeps */
	unsigned int n;
	struct gsi_mad mads[KEPT];
} kept;
static __thread bool keeps __attribute__((tls_model("initial-exec")));

int gsi_own_open(unsigned int slot, gsi_own_hear *hear, int *in)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair))
		return errno;
	*in = pair[0];
	own.out = pair[1];
	own.slot = slot;
	own.hear = hear;
	for (unsigned int i = 0; i < PORTS; i++)
		store_relaxed(&own.ports[i], 0);
	store_release(&own.epoch, fork_epoch()); /* (A) */
	return 0;
}

void gsi_own_close(void)
{
	int out = own.out;

	store_relaxed(&own.epoch, 0);
	own.out = -1;
	if (out >= 0)
		close(out);
}

static bool is_open(void)
{
	return fork_is_ours(load_acquire(&own.epoch)); /* (A) */
}

/* --- ports --- */

/* Never 0. Two ports with one key: connection management, which looks for the listening id, refuses
 * requests to the other one. */
static uint64_t key_of(const struct gsi_port *p)
{
	uint64_t key = (uint64_t)p->ps << 32 | (uint64_t)p->any << 16 | p->port;

	if (p->any == GSI_ADDRESS) {
		key = rand_mix(&key) ^ get_be64(p->addr.raw);
		key = rand_mix(&key) ^ get_be64(p->addr.raw + 8);
	}
	return key ? key : 1;
}

static unsigned int place(uint64_t key)
{
	unsigned int i = 0;

	while (i < PORTS && load_relaxed(&own.ports[i]) != key)
		i++;
	return i;
}

void gsi_own_port(const struct gsi_port *p, bool owns)
{
	uint64_t key = key_of(p);
	bool did = place(key) < PORTS;
	unsigned int i = place(owns ? 0 : key);

	if (did != owns && i < PORTS)
		store_relaxed(&own.ports[i], owns ? key : 0);
}

bool gsi_own_owns(const struct gsi_port *p)
{
	struct gsi_port any = { .ps = p->ps, .port = p->port };

	any.any = gid_is_ipv4(&p->addr) ? GSI_ANY4 : GSI_ANY6;
	return is_open() && (place(key_of(p)) < PORTS || place(key_of(&any)) < PORTS);
}

bool gsi_own_slot(unsigned int slot)
{
	return is_open() && own.slot == slot;
}

/* --- messages --- */

static int send_it(const void *m, size_t len)
{
	return send(own.out, m, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len ? 0 : EAGAIN;
}

void gsi_own_keep(void)
{
	kept.n = 0;
	kept.epoch = fork_epoch();
	keeps = true;
}

/* Into the pair, so that nothing passes what came before. */
static void pass(void)
{
	for (unsigned int i = 0; i < kept.n; i++)
		send_it(&kept.mads[i], sizeof(kept.mads[i])); /* without room it is lost */
	kept.n = 0;
}

int gsi_own_say(const void *m, size_t len)
{
	if (!keeps || !own.hear || len != sizeof(kept.mads[0]) || !fork_is_ours(kept.epoch))
		return send_it(m, len);
	if (kept.n == KEPT)
		pass();
	memcpy(&kept.mads[kept.n++], m, len);
	return 0;
}

void gsi_own_flush(void)
{
	if (likely(!kept.n))
		return;
	if (is_open() && own.hear(kept.mads, kept.n))
		kept.n = 0;
	else
		pass();
}
