// SPDX-License-Identifier: MIT
/* The handshake. The asker sends HELLO, the asked WELCOME, both with their page, mail page,
 * inbound ring and doorbell; then the asker sends READY. A memory descriptor is sent only to who
 * is in host->contact[] already, so that host_revoke() sees the hazards of everyone who may reach
 * us: by WELCOME, or by READY. ALIAS: we know each other under another slot; YIELD: my own HELLO
 * goes first. */
#include "peers/contact_hello.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "peers/contact.h"
#include "peers/contact_trust.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "util/log.h"
#include "util/quiesce.h"
#include "util/sealed.h"

enum { MAGIC = 0x73687063, FDS_MAX = 6 };
enum { FD_PAGE, FD_MAIL, FD_RING, FD_BELL, FD_MEMORY, FD_FULL = FD_MEMORY };

struct message {
	uint32_t magic, layout, kind;
	uint32_t slot; /* the sender's first */
	uint64_t cookie, cookie_addr;
	uint32_t gen, n_keys;
	uint64_t key_bytes;
	uint32_t ring_size;
	uint32_t mail_bit;
	uint32_t fetches; /* the sender reaches our memory */
	uint32_t reserved;
	struct share_message share;
};

/* FDS_MAX is even: CMSG_SPACE() rounds up to 8 bytes, and the kernel fills all of it. */
static int send_message(int conn, const struct message *m, const int *fds, unsigned int n)
{
	char control[CMSG_SPACE(sizeof(int) * FDS_MAX)] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)m, sizeof(*m) };
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
	if (sendmsg(conn, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return errno;
	return 0;
}

static void close_all(const int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* All descriptors that came, at most FDS_MAX; more are cut off by the kernel, which says so. */
static unsigned int take_fds(struct msghdr *msg, int *fds)
{
	struct cmsghdr *cm = CMSG_FIRSTHDR(msg);
	unsigned int n;

	if (!cm || cm->cmsg_level != SOL_SOCKET || cm->cmsg_type != SCM_RIGHTS)
		return 0;
	n = (unsigned int)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(cm), sizeof(int) * n);
	return n;
}

/* EAGAIN: none. ECONNRESET: the peer has left. EPROTO: not a message of ours. */
static int receive_message(int conn, struct message *m, int *fds, unsigned int *n)
{
	union {
		char room[CMSG_SPACE(sizeof(int) * FDS_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = { m, sizeof(*m) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.room,
			      .msg_controllen = sizeof(control.room) };
	ssize_t got = recvmsg(conn, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0)
		return errno == EINTR ? EAGAIN : errno;
	*n = take_fds(&msg, fds); /* an empty message may bring some too */
	if (got == sizeof(*m) && m->magic == MAGIC && m->layout == HOST_LAYOUT &&
	    !(msg.msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
		return 0;
	close_all(fds, *n);
	return got ? EPROTO : ECONNRESET;
}

static struct message message(const struct contact *c, enum contact_message kind)
{
	const struct host *h = c->host;

	return (struct message){
		.magic = MAGIC,
		.layout = HOST_LAYOUT,
		.kind = kind,
		.slot = host_first_slot(h),
		.cookie = h->page->cookie,
		.cookie_addr = (uintptr_t)&h->page->cookie,
		.gen = h->page->gen,
		.n_keys = h->cfg.n_keys,
		.key_bytes = h->cfg.key_bytes,
		.mail_bit = c->index % NUMBER_SLOTS, /* the asker's comes by READY */
		.fetches = c->remote && h->cfg.key_read,
	};
}

static int say(struct contact *c, enum contact_message kind)
{
	struct message m = message(c, kind);

	return send_message(c->conn.fd, &m, NULL, 0);
}

int contact_offer_ring(struct contact *c, uint32_t size, int fd)
{
	struct message m = message(c, CONTACT_RING);

	m.ring_size = size;
	return send_message(c->conn.fd, &m, &fd, 1);
}

int contact_say_share(struct contact *c, enum contact_message kind, const struct share_message *s,
		      int fd)
{
	struct message m = message(c, kind);

	m.share = *s;
	return send_message(c->conn.fd, &m, &fd, fd >= 0);
}

/* HELLO or WELCOME: all of ours. The contact has its place in host->contact[] already. */
static int present(struct contact *c, enum contact_message kind)
{
	struct host *h = c->host;
	struct message m = message(c, kind);
	int fds[FDS_MAX] = { h->page_fd, h->mail_fd, -1, h->bell, -1 };
	int err = ring_end_make(&c->in, RING_MIN, &fds[FD_RING]);

	if (err)
		return err;
	contact_watch_ring(c);
	m.ring_size = RING_MIN;
	if (kind == CONTACT_WELCOME)
		fds[FD_MEMORY] = contact_trust(c->pid, c->conn.fd);
	c->trusted = fds[FD_MEMORY] >= 0;
	err = send_message(c->conn.fd, &m, fds, FD_FULL + (fds[FD_MEMORY] >= 0));
	close_all(fds + FD_RING, 1);
	close_all(fds + FD_MEMORY, 1);
	return err;
}

static void reach(struct contact *c, int fd)
{
	struct remote *r;
	int err = remote_open(fd, c->pid, c->cookie_addr, c->cookie, &r);

	if (err) {
		log_debug("memory of slot %u is not reached: %s", c->slot, strerror(err));
		return;
	}
	remote_watch(r, &c->page->alive);
	store_release(&c->remote, r); /* revocations look at it already: pairs with held_by() */
}

/* Its table of keys has room for as many as it says there are: entries are as large as ours. */
static bool keys_fit(const struct host_config *ours, const struct message *m)
{
	uint64_t entry = ours->n_keys ? ours->key_bytes / ours->n_keys : 0;

	return m->key_bytes <= (UINT64_C(1) << 32) && m->n_keys * entry <= m->key_bytes;
}

/* Maps what HELLO or WELCOME brought. Takes over *bell and the memory descriptor. */
static int learn(struct contact *c, const struct message *m, int *fds, unsigned int n)
{
	int err;

	if (n < FD_FULL || m->slot >= NUMBER_SLOTS || m->mail_bit >= HOST_MAIL_WORDS * 64 ||
	    !keys_fit(&c->host->cfg, m) || !contact_is_bell(fds[FD_BELL]))
		return EPROTO;
	c->cookie = m->cookie;
	c->cookie_addr = m->cookie_addr;
	c->gen = m->gen;
	c->slot = m->slot;
	c->mail_bit = m->mail_bit;
	host_layout(m->n_keys, m->key_bytes, &c->layout);
	err = sealed_map(fds[FD_PAGE], c->layout.bytes, false, (void **)(uintptr_t)&c->page);
	if (!err)
		err = sealed_map(fds[FD_MAIL], HOST_MAIL_BYTES, true, (void **)&c->mail);
	if (!err)
		err = ring_end_map(&c->out, m->ring_size, fds[FD_RING]);
	if (err)
		return err;
	c->bell = fds[FD_BELL];
	fds[FD_BELL] = -1;
	return 0;
}

/* A place in host->contact[], so that revocations look at its hazards. */
static int enlist(struct contact *c)
{
	struct host *h = c->host;

	for (uint32_t i = 0; i < NUMBER_SLOTS; i++) {
		if (h->contact[i])
			continue;
		c->index = i;
		if (i >= h->top)
			store_relaxed(&h->top, i + 1);
		/* Before the memory descriptor leaves: pairs with host_revoke()'s look. */
		__atomic_store_n(&h->contact[i], c, __ATOMIC_SEQ_CST);
		return 0;
	}
	return ENOSPC;
}

static void watch_pid(struct contact *c)
{
	int fd = -1;

	if (c->pid && contact_fds_left(c->conn.fd))
		fd = (int)syscall(SYS_pidfd_open, c->pid, 0);
	if (fd < 0)
		return;
	c->pidfd.fd = fd;
	if (host_watch(c->host, &c->pidfd, host_pid_ready))
		host_unwatch(c->host, &c->pidfd);
}

static void may_refer(struct contact *c)
{
	store_release(&c->home->d.max_ref, c->host->cfg.key_read ? HOST_MAX_REF : 0);
}

static void up(struct contact *c)
{
	watch_pid(c);
	host_contact_up(c);
}

static struct contact *known(struct host *h, uint64_t cookie)
{
	for (uint32_t i = 0; i < h->top; i++)
		if (h->contact[i] && h->contact[i]->cookie == cookie)
			return h->contact[i];
	return NULL;
}

static struct contact *asking(struct host *h, unsigned int slot)
{
	for (struct contact *c = h->pending; c; c = c->next)
		if (c->asked && c->asked->slot == slot && !c->broken)
			return c;
	return NULL;
}

static int on_hello(struct contact *c, const struct message *m, int *fds, unsigned int n)
{
	struct contact *mine = asking(c->host, m->slot);
	int err;

	if (known(c->host, m->cookie)) {
		say(c, CONTACT_ALIAS);
		return ECONNRESET;
	}
	if (mine && host_first_slot(c->host) < m->slot) {
		say(c, CONTACT_YIELD);
		return ECONNRESET;
	}
	c->state = CONTACT_WELCOMED;
	err = learn(c, m, fds, n);
	if (!err)
		err = host_target(c->host, c->slot, false, &c->home);
	if (!err)
		err = enlist(c);
	if (err)
		return err;
	if (mine)
		contact_left(mine); /* theirs stays; nothing was promised on ours */
	return present(c, CONTACT_WELCOME);
}

/* As the asker: the contact is complete; ours follows by READY. */
static int on_welcome(struct contact *c, const struct message *m, int *fds, unsigned int n)
{
	struct message ready;
	int err, fd;

	if (known(c->host, m->cookie))
		return ECONNRESET;
	err = learn(c, m, fds, n);
	if (!err)
		err = host_target(c->host, c->slot, false, &c->home);
	if (!err)
		err = enlist(c);
	if (err)
		return err;
	if (n > FD_MEMORY) {
		reach(c, fds[FD_MEMORY]);
		fds[FD_MEMORY] = -1;
	}
	fd = contact_trust(c->pid, c->conn.fd);
	c->trusted = fd >= 0;
	ready = message(c, CONTACT_READY);
	err = send_message(c->conn.fd, &ready, &fd, fd >= 0);
	close_all(&fd, 1);
	if (!err)
		up(c);
	return err;
}

static int on_ready(struct contact *c, const struct message *m, int *fds, unsigned int n)
{
	if (n) {
		reach(c, fds[0]);
		fds[0] = -1;
	}
	c->mail_bit = m->mail_bit < HOST_MAIL_WORDS * 64 ? m->mail_bit : 0;
	if (m->fetches)
		may_refer(c);
	up(c);
	return c->remote && c->host->cfg.key_read ? say(c, CONTACT_FETCHES) : 0;
}

static int on_alias(struct contact *c, const struct message *m)
{
	struct contact *other = known(c->host, m->cookie);

	if (other && other->state == CONTACT_UP) {
		host_target_settle(c->asked, TARGET_UP, other);
		host_target_put(c->asked);
		c->asked = NULL;
	}
	return ECONNRESET;
}

/* What is said about mappings; only who is up says it. */
static int on_share(struct contact *c, const struct message *m, const int *fds, unsigned int n)
{
	int err = c->state == CONTACT_UP ? 0 : EPROTO;

	if (!err && m->kind == CONTACT_SHARE)
		contact_share_asked(c, &m->share);
	else if (!err && m->kind == CONTACT_SHARED)
		contact_share_told(c, &m->share, n ? fds[0] : -1);
	else if (!err && m->kind == CONTACT_UNSHARE)
		contact_share_forget(c, &m->share);
	else
		err = EPROTO;
	return err;
}

static int on_message(struct contact *c, const struct message *m, int *fds, unsigned int n)
{
	switch (m->kind) {
	case CONTACT_HELLO:
		return c->state == CONTACT_CAME ? on_hello(c, m, fds, n) : EPROTO;
	case CONTACT_WELCOME:
		return c->state == CONTACT_ASKED ? on_welcome(c, m, fds, n) : EPROTO;
	case CONTACT_READY:
		return c->state == CONTACT_WELCOMED ? on_ready(c, m, fds, n) : EPROTO;
	case CONTACT_ALIAS:
		return c->state == CONTACT_ASKED ? on_alias(c, m) : EPROTO;
	case CONTACT_YIELD:
		return ECONNRESET;
	case CONTACT_FETCHES:
		if (c->state != CONTACT_UP)
			return EPROTO;
		may_refer(c);
		return 0;
	case CONTACT_RING:
		return c->state == CONTACT_UP && n ? contact_take_ring(c, m->ring_size, fds[0])
						   : EPROTO;
	default:
		return on_share(c, m, fds, n);
	}
}

static void conn_ready(struct watch *w, uint64_t now)
{
	struct contact *c = container_of(w, struct contact, conn);
	unsigned int n;
	struct message m;
	int fds[FDS_MAX], err;

	(void)now;
	if (load_relaxed(&c->broken))
		return; /* it is half built, and about to be ended */
	do {
		n = 0;
		err = receive_message(w->fd, &m, fds, &n);
		if (err)
			break;
		err = on_message(c, &m, fds, n);
		close_all(fds, n);
	} while (!err);
	if (err == EAGAIN)
		return;
	if (err == EPROTO)
		contact_break(c, "it broke the rules of the handshake");
	contact_left(c);
}

int contact_ask(struct host *h, struct target *t, uint64_t now)
{
	struct contact *c;
	int conn, err = host_name_connect(h->uid, t->slot, &conn);

	if (err)
		return err;
	c = contact_new(h, conn);
	if (!c)
		return ENOMEM;
	c->state = CONTACT_ASKED;
	c->deadline = now + HOST_CONTACT_NS;
	c->asked = t;
	fetch_add_relaxed(&t->d.refs, 1);
	err = contact_peer(conn, &c->pid);
	if (!err)
		err = present(c, CONTACT_HELLO);
	if (!err)
		err = host_watch(h, &c->conn, conn_ready);
	if (err) {
		host_target_put(c->asked);
		c->asked = NULL;
		contact_left(c);
	}
	return err;
}

void contact_accept(struct host *h, int conn, uint64_t now)
{
	struct contact *c = contact_new(h, conn);

	if (!c)
		return;
	c->state = CONTACT_CAME;
	c->deadline = now + HOST_CONTACT_NS;
	if (contact_peer(conn, &c->pid) || host_watch(h, &c->conn, conn_ready))
		contact_left(c);
}
