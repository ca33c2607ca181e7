// SPDX-License-Identifier: MIT
/* A peer on the same host, from its first message on: what it says, which descriptors it sends,
 * what its page, its keys and its ring hold. The input is a script of that peer's doings; the
 * process it talks to is this one. Whatever it does, it is gone at the end, and nothing of it is
 * left. */
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "fuzz.h"
#include "peers/contact_message.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "util/clock.h"
#include "util/fork.h"
#include "util/guard.h"
#include "util/quiesce.h"
#include "util/sealed.h"

enum { MAX = 1024, STEPS = 24, KEYS = 64, FDS = 8, SEND_FDS = 6, QPN = 2, MAGIC = 0x73687063 };

const struct fuzz_target fuzz_target = { "hello", MAX, 10000 };

struct key { /* of our table: 0 is free */
	uint32_t key, pdn, access, flat;
	uint64_t iova, len, addr, gen;
};

struct greeting { /* contact_message.c's bytes */
	uint32_t magic, layout, kind, slot;
	uint64_t cookie, cookie_addr;
	uint32_t gen, n_keys;
	uint64_t key_bytes;
	uint32_t ring_size, mail_bit, offers, trusts;
	struct share_message share;
	uint64_t secret_addr, nonce, echo, proof;
};

static struct host *host;
static unsigned int owned[2]; /* slots that the peer has by their names */
static int listening[2]; /* to those */
static uint64_t cookie = UINT64_C(0x123456789abcdef), secret = UINT64_C(0xfedcba987654321);
static uint8_t target[4096]; /* what the keys cover */

/* What the peer may send: page, mail, ring, bell, and so on. */
static struct {
	int fd[FDS];
	uint8_t *page, *tables, *ring;
	size_t tables_len;
} peers;

static struct {
	int conn;
	uint8_t *in; /* the ring it writes to, when WELCOME has brought it */
	uint64_t at;
	uint64_t proof; /* what WELCOME has named the place of */
} peer;

static bool key_read(const void *table, uint32_t n, uint32_t key, struct host_key *out)
{
	const struct key *e = (const struct key *)table + (key >> 8);

	if (key >> 8 >= n || load_acquire(&e->key) != key)
		return false;
	*out = (struct host_key){ e->pdn, e->access, e->flat, e->iova, e->len, e->addr, e->gen };
	return true;
}

static void deliver(void *arg, const struct seg *s)
{
	(void)arg;
	must(s->from && (s->dqpn | s->sqpn) <= 0xffffff);
	must(!s->len || s->data || s->npieces || (s->flags & SEG_BYREF));
}

static void make_fds(void)
{
	struct host_layout l;
	void *map;

	host_layout(KEYS, KEYS * sizeof(struct key), &l);
	must(!sealed_make("page", HOST_PAGE_BYTES, SEALED_SPARSE, &peers.fd[0], &map));
	peers.page = map;
	peers.tables_len = l.bytes;
	must(!sealed_make("tables", l.bytes, SEALED_SPARSE, &peers.fd[4], &map));
	peers.tables = map;
	must(!sealed_make("mail", HOST_MAIL_BYTES, SEALED_SPARSE, &peers.fd[2], &map));
	must(!sealed_make("ring", RING_CTL + RING_MIN, SEALED_SPARSE, &peers.fd[1], &map));
	peers.ring = map;
	peers.fd[3] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	must(!sealed_make("ring", RING_CTL + 2 * RING_MIN, SEALED_SPARSE, &peers.fd[5], &map));
	peers.fd[6] =
		open("/proc/self/mem", O_RDONLY | O_CLOEXEC); /* it is our own: not writable */
	peers.fd[7] = memfd_create("unsealed", MFD_CLOEXEC);
}

static void publish(void)
{
	struct key *k = host_key_memory(host);
	struct host_qp qp = { IBV_QPS_RTS, IBV_ACCESS_REMOTE_READ, 7, QPN, HOST_QP_DIRECT };

	k[1] = (struct key){ 0x100, 7, IBV_ACCESS_REMOTE_READ, 1, 0, sizeof(target), 0, 2 };
	k[1].addr = k[1].iova = (uintptr_t)target;
	host_publish_qp(host, number_make(host_first_slot(host), QPN), &qp);
}

static void take_slots(void)
{
	for (unsigned int i = 0; i < 2; i++) {
		owned[i] = (host_first_slot(host) + 1 + i) % NUMBER_SLOTS;
		must(!host_name_bind(owned[i], &listening[i]));
	}
}

/* Whoever asks for the peer, or who it is, hears nothing. */
static void turn_away(void)
{
	int conn;

	for (unsigned int i = 0; i < 2; i++)
		while ((conn = accept(listening[i], NULL, NULL)) >= 0)
			close(conn);
}

/* One of the peer's own, or, of an odd number, any. */
static unsigned int take_slot(struct fuzz_bytes *b)
{
	unsigned int n = (unsigned int)fuzz_take(b, 2);

	return n & 1 ? n >> 1 : owned[n >> 1 & 1];
}

static void start(void)
{
	struct host_config cfg = { .n_keys = KEYS,
				   .key_bytes = KEYS * sizeof(struct key),
				   .key_read = key_read,
				   .deliver = deliver };

	setenv("SOFTHCA_LOG", "error", 0);
	setenv("SOFTHCA_DIRECT", "1", 1);
	must(!fork_init() && !guard_init() && !host_create(&cfg, &host));
	make_fds();
	publish();
	take_slots();
}

static void send_message(const struct greeting *g, const int *fds, unsigned int n)
{
	char control[CMSG_SPACE(sizeof(int) * SEND_FDS)] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)g, sizeof(*g) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cm;

	if (n) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(cm), fds, sizeof(int) * n);
	}
	sendmsg(peer.conn, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* What an honest peer says, less what the script says otherwise. */
enum { LIE_COOKIE = 8, LIE_SIZES = 16, LIE_ALL = 32, LIE_MAGIC = 64 };

static void say(struct fuzz_bytes *b)
{
	uint32_t how = (uint32_t)fuzz_take(b, 1), which = (uint32_t)fuzz_take(b, 3);
	uint32_t n = how & 7;
	struct greeting g = { MAGIC, HOST_LAYOUT, (uint32_t)fuzz_take(b, 1) };
	const uint8_t *raw;
	int fds[SEND_FDS];

	g.slot = take_slot(b);
	g.n_keys = KEYS;
	g.key_bytes = KEYS * sizeof(struct key);
	g.ring_size = RING_MIN;
	g.offers = g.trusts = 1;
	g.share.key = 0x100;
	if (how & LIE_SIZES) {
		g.n_keys = (uint32_t)fuzz_take(b, 4);
		g.ring_size = (uint32_t)fuzz_take(b, 4);
		g.mail_bit = (uint32_t)fuzz_take(b, 2);
	}
	if (how & LIE_ALL) {
		size_t most = fuzz_take_run(b, sizeof(g) - offsetof(struct greeting, cookie), &raw);

		memcpy(&g.cookie, raw, most);
	}
	if (how & LIE_MAGIC)
		g.magic = (uint32_t)fuzz_take(b, 4);
	if (!(how & LIE_COOKIE)) {
		g.cookie = cookie;
		g.cookie_addr = (uintptr_t)&cookie;
		g.secret_addr = (uintptr_t)&secret;
		g.proof = peer.proof;
	}
	n = n > SEND_FDS ? SEND_FDS : n;
	for (unsigned int i = 0; i < n; i++)
		fds[i] = peers.fd[which >> i * 4 & 7];
	send_message(&g, fds, n);
}

/* By the kernel: the contact may have ended meanwhile. */
static void keep_proof(const struct greeting *g)
{
	struct iovec here = { &peer.proof, sizeof(peer.proof) };
	struct iovec there = { (void *)(uintptr_t)g->secret_addr, sizeof(peer.proof) };

	if (process_vm_readv(getpid(), &here, 1, &there, 1, 0) != sizeof(peer.proof))
		peer.proof = 0;
}

/* The first descriptor of WELCOME that is a ring is what we write to. */
static void keep_ring(int fd)
{
	void *map;

	if (!peer.in && !sealed_map(fd, RING_CTL + RING_MIN, true, &map)) {
		peer.in = map;
		peer.at = 0;
	}
	close(fd);
}

static void hear(void)
{
	union {
		char room[CMSG_SPACE(sizeof(int) * SEND_FDS)];
		struct cmsghdr align;
	} control;
	struct greeting g;
	struct iovec iov = { &g, sizeof(g) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.room,
			      .msg_controllen = sizeof(control.room) };
	struct cmsghdr *cm;
	int fd;

	if (recvmsg(peer.conn, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != sizeof(g))
		return;
	keep_proof(&g);
	cm = CMSG_FIRSTHDR(&msg);
	for (size_t i = 0; cm && CMSG_LEN((i + 1) * sizeof(int)) <= cm->cmsg_len; i++) {
		memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
		keep_ring(fd);
	}
}

static void drain(void)
{
	quiesce_enter();
	host_drain(host, 64);
	quiesce_exit();
}

static void write_ring(struct fuzz_bytes *b)
{
	const uint8_t *from;
	size_t n = fuzz_take(b, 1) * 8;

	n = fuzz_take_run(b, n, &from);
	if (!peer.in)
		return;
	for (size_t i = 0; i < n; i++)
		peer.in[RING_CTL + (peer.at + i) % RING_MIN] = from[i];
	peer.at += (n + RING_LINE - 1) / RING_LINE * RING_LINE;
	drain();
}

/* Direct access by the process under test: what the peer publishes is believed by nobody. */
static void ask_direct(struct fuzz_bytes *b)
{
	static uint8_t local[256];
	struct piece piece = { (uintptr_t)local, 1 + (uint32_t)fuzz_take(b, 1) % 255, 0 };
	struct link_grant grant = { 0 };
	struct direct_ask ask = { .grant = &grant,
				  .sqpn = number_make(host_first_slot(host), QPN),
				  .dqpn = number_make(take_slot(b), QPN),
				  .rkey = (uint32_t)fuzz_take(b, 4),
				  .va = fuzz_take(b, 8),
				  .len = piece.len,
				  .pieces = &piece,
				  .npieces = 1 };
	struct dest *d;

	if (host_dest(host, ask.dqpn, &d))
		return;
	quiesce_enter();
	if (d->ops->direct)
		d->ops->direct(d, &ask);
	quiesce_exit();
	d->ops->put(d);
}

static void poke_page(struct fuzz_bytes *b)
{
	uint64_t at = fuzz_take(b, 4) % (HOST_PAGE_BYTES + peers.tables_len);
	uint64_t n = fuzz_take(b, 1), len = HOST_PAGE_BYTES;
	uint8_t *to = peers.page;
	const uint8_t *from;

	if (at >= HOST_PAGE_BYTES) {
		at -= HOST_PAGE_BYTES;
		to = peers.tables;
		len = peers.tables_len;
	}
	n = fuzz_take_run(b, n < len - at ? n : len - at, &from);
	memcpy(to + at, from, n);
}

static void send_segment(struct fuzz_bytes *b)
{
	uint32_t dqpn = number_make(take_slot(b), QPN);
	struct seg s = { .op = 4, .pkey = 0xffff, .dqpn = dqpn, .npsn = 1 };
	struct dest *d;

	((struct ring_ctl *)(void *)peers.ring)->pos = fuzz_take(b, 4);
	if (host_dest(host, dqpn, &d))
		return;
	quiesce_enter();
	dest_send(d, &s, NULL);
	quiesce_exit();
	d->ops->put(d);
}

static void turn(struct fuzz_bytes *b)
{
	(void)b;
	host_control(host, clock_now());
	hear();
	drain();
}

/* At one point in time: whom the host would ask again and again has not answered. */
static void leave(void)
{
	uint64_t now = clock_now();

	close(peer.conn);
	if (peer.in)
		sealed_unmap(peer.in, RING_CTL + RING_MIN);
	peer.in = NULL;
	peer.proof = 0;
	for (unsigned int i = 0; host->pending || host->top; i++) {
		must(i < 16);
		turn_away();
		host_control(host, now);
	}
	memset(peers.tables, 0, KEYS * sizeof(struct key));
	memset(peers.ring, 0, RING_CTL + 256);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static void (*const doings[])(struct fuzz_bytes *) = {
		say, turn, write_ring, ask_direct, poke_page, send_segment
	};
	struct fuzz_bytes b = { data, len };

	if (!host)
		start();
	must(!host_name_connect(host_first_slot(host), &peer.conn));
	host_control(host, clock_now());
	for (unsigned int i = 0; i < STEPS && b.left; i++)
		doings[fuzz_take(&b, 1) % (sizeof(doings) / sizeof(doings[0]))](&b);
	leave();
	return 0;
}
