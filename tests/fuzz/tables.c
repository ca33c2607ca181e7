// SPDX-License-Identifier: MIT
/* What a peer publishes, its page and its tables of keys and queue pairs, and direct access by
 * them: whatever stands there, bytes are moved between the peer's memory and the places that our
 * work request names, no more of them than it names, and nothing else of ours is touched. The
 * peer is a copy of this process that sleeps, so its memory can be written anywhere. The input:
 * what the peer publishes, and what we ask for, in turn. */
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "fuzz.h"
#include "hca/key_table.h"
#include "peers/host_state.h"
#include "peers/shm.h"
#include "util/fork.h"
#include "util/guard.h"
#include "util/quiesce.h"

enum { KEYS = 32, STEPS = 32, THEIR_SLOT = 5, OUR_SLOT = 6, OUR_GEN = 9, QPN = 2, LINE = 64 };
enum { LOCAL = 1 << 14, FROM = 4096, LEN = 8192, FILL = 0x5a };
enum { KEY_AT = 3, KEY = KEY_AT << 8 | 1 };

const struct fuzz_target fuzz_target = { "tables", 1024, 30000 };

static struct host us;
static struct host_page our_page, *their_page;
static struct contact c;
static uint8_t *tables, *local; /* [FROM, FROM + LEN) of local may be written */
static uint8_t *shared; /* what the peer's honest key covers */

static bool key_read(const void *table, uint32_t n, uint32_t key, struct host_key *out)
{
	struct key_entry e;

	if (!key_copy_foreign(table, n, key, &e))
		return false;
	*out = (struct host_key){ e.pdn,  e.access, e.flags & KEY_DIRECT, e.iova, e.len,
				  e.addr, e.gen };
	return true;
}

/* Sleeps until this process ends. */
static pid_t copy_of_us(void)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		pause();
}

static void *memory(size_t n)
{
	void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	must(p != MAP_FAILED);
	return p;
}

static pid_t peer;

static void end_peer(void)
{
	kill(peer, SIGKILL);
}

static void start(void)
{
	static uint64_t cookie = UINT64_C(0x123456789abcdef);
	char path[32];

	must(!fork_init() && !guard_init());
	host_layout(KEYS, KEYS * sizeof(struct key_entry), &c.layout);
	tables = memory(c.layout.bytes);
	their_page = memory(sizeof(*their_page));
	local = memory(LOCAL);
	shared = memory(LEN);
	peer = copy_of_us();
	must(peer > 0 && !atexit(end_peer));
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)peer);
	must(!remote_open(open(path, O_RDWR | O_CLOEXEC), peer, (uintptr_t)&cookie, cookie,
			  &c.remote));
	our_page.gen = OUR_GEN;
	us.page = &our_page;
	us.cfg.key_read = key_read;
	c.host = &us;
	c.slot = THEIR_SLOT;
	c.gen = 1;
	c.page = their_page;
	c.tables = tables;
	c.trusted = c.mutual = 1;
}

/* What an honest peer publishes. */
static void publish(void)
{
	struct key_entry *k = (struct key_entry *)tables + KEY_AT;
	struct host_page_qp *q;

	memset(tables, 0, c.layout.n_keys * sizeof(*k));
	*k = (struct key_entry){ .key = KEY, .pdn = 7, .access = 7, .flags = KEY_DIRECT };
	k->len = LEN;
	k->iova = k->addr = (uintptr_t)shared;
	memset(their_page, 0, sizeof(*their_page));
	their_page->slots[0] = THEIR_SLOT + 1;
	q = host_page_qp(tables, &c.layout, 0, number_make(THEIR_SLOT, QPN));
	*q = (struct host_page_qp){ .state = IBV_QPS_RTS, .access = 7, .pdn = 7 };
	q->peer_qpn = number_make(OUR_SLOT, QPN);
	q->flags = HOST_QP_DIRECT;
	q->peer_gen = OUR_GEN;
}

/* Anywhere in the first lines of the keys, in the queue pair's entry, or in the page. */
static void poke(struct fuzz_bytes *b)
{
	uint32_t at = (uint32_t)fuzz_take(b, 2), where = at >> 14;
	uint8_t *to = tables, *end = tables + c.layout.qps;
	const uint8_t *from;
	size_t n = fuzz_take(b, 1) % LINE;

	if (where == 1) {
		to = (uint8_t *)host_page_qp(tables, &c.layout, 0, number_make(THEIR_SLOT, QPN));
		end = to + sizeof(struct host_page_qp);
	} else if (where == 2) {
		to = (uint8_t *)their_page;
		end = to + sizeof(*their_page);
	} else if (where == 3) {
		to = (uint8_t *)((struct key_entry *)tables + KEY_AT);
		end = to + sizeof(struct key_entry);
	}
	to += at % (uint32_t)(end - to);
	n = fuzz_take_run(b, n < (size_t)(end - to) ? n : (size_t)(end - to), &from);
	memcpy(to, from, n);
}

/* Up to three pieces of local memory, side by side. */
static unsigned int pieces(struct fuzz_bytes *b, struct piece *p, uint32_t *sum)
{
	unsigned int n = 1 + (unsigned int)fuzz_take(b, 1) % 3;

	*sum = 0;
	for (unsigned int i = 0; i < n; i++) {
		p[i] = (struct piece){ (uintptr_t)local + FROM + *sum, 0, 1 };
		p[i].len = (uint32_t)fuzz_take(b, 2) % (LEN / 4);
		*sum += p[i].len;
	}
	return n;
}

/* Nothing but [FROM, FROM + @len) has changed; that is as before again. */
static void only_there(uint32_t len)
{
	for (uint32_t i = 0; i < LOCAL; i++)
		must(local[i] == FILL || (i >= FROM && i < FROM + len));
	memset(local + FROM, FILL, LEN);
	for (int i = 0; i < HAZARDS; i++)
		must(!our_page.hazard[i]);
}

static struct link_grant grant; /* of the input's last access */

static void ask_direct(struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1);
	struct piece p[3];
	struct direct_ask ask = { .write = how & 1,
				  .grant = &grant,
				  .mapped = how & 2,
				  .sqpn = number_make(OUR_SLOT, QPN),
				  .dqpn = number_make(THEIR_SLOT, QPN),
				  .rkey = how & 4 ? (uint32_t)fuzz_take(b, 2) : KEY,
				  .va = (uintptr_t)shared + fuzz_take(b, 2),
				  .pieces = p };

	ask.npieces = pieces(b, p, &ask.len);
	if (how & 8)
		ask.va = fuzz_take(b, 8);
	if (how & 16)
		ask.dqpn = (uint32_t)fuzz_take(b, 3);
	for (int i = 0; i < 4 && !shm_direct_to(&c, &ask); i++)
		must(ask.done <= ask.len);
	only_there(ask.write ? 0 : ask.len);
}

/* A payload by reference: the record's pieces are the peer's words too. */
static void fetch(struct fuzz_bytes *b)
{
	struct piece theirs[3], p[3];
	struct seg s = { .flags = SEG_BYREF, .pieces = theirs };
	uint32_t len;
	unsigned int n;

	s.npieces = (uint16_t)(1 + fuzz_take(b, 1) % 3);
	for (unsigned int i = 0; i < s.npieces; i++) {
		theirs[i] = (struct piece){ (uintptr_t)shared + fuzz_take(b, 2), 0, KEY };
		theirs[i].len = (uint32_t)fuzz_take(b, 2);
		if (fuzz_take(b, 1) & 1) {
			theirs[i].addr = fuzz_take(b, 8);
			theirs[i].key = (uint32_t)fuzz_take(b, 2);
		}
		s.len += theirs[i].len;
	}
	n = pieces(b, p, &len);
	shm_fetch_from(&c, &s, (uint32_t)fuzz_take(b, 2), p, n);
	only_there(len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const doings[])(struct fuzz_bytes *) = { poke, poke, ask_direct, fetch };
	struct fuzz_bytes b = { data, len };

	if (!local)
		start();
	publish();
	memset(local, FILL, LOCAL);
	grant = (struct link_grant){ 0 };
	quiesce_enter();
	for (unsigned int i = 0; i < STEPS && b.left; i++)
		doings[fuzz_take(&b, 1) % 4](&b);
	quiesce_exit();
	return 0;
}
