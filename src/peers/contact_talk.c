// SPDX-License-Identifier: MIT
#include "peers/contact_talk.h"
#include <errno.h>
#include <string.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>
#include "peers/host_state.h"
#include "util/uncancelled.h"

/* CONTACT_FDS is even: CMSG_SPACE() rounds up to 8 bytes, and the kernel fills all of it. */
int contact_talk_send(int conn, const struct contact_message *m, const int *fds, unsigned int n)
{
	uint8_t bytes[CONTACT_MESSAGE_LEN];
	char control[CMSG_SPACE(sizeof(int) * CONTACT_FDS)] = { 0 };
	struct iovec iov = { bytes, sizeof(bytes) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cm;
	ssize_t sent;

	contact_message_encode(m, bytes);
	if (n) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(cm), fds, sizeof(int) * n);
	}
	UNCANCELLED(sent, sendmsg(conn, &msg, MSG_DONTWAIT | MSG_NOSIGNAL));
	return sent < 0 ? errno : 0;
}

bool contact_talk_unread(int conn)
{
	int bytes;

	return !ioctl(conn, SIOCOUTQ, &bytes) && bytes;
}

void contact_talk_close(const int *fds, unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* All descriptors that there was room for; more are cut off by the kernel, which says so. And who
 * sent them, where the kernel was asked to say it: then that always comes, and takes its
 * room before the descriptors do. */
static unsigned int take_control(struct msghdr *msg, int *fds, pid_t *from)
{
	unsigned int n = 0;
	struct ucred cred;

	for (struct cmsghdr *cm = CMSG_FIRSTHDR(msg); cm; cm = CMSG_NXTHDR(msg, cm)) {
		if (cm->cmsg_level != SOL_SOCKET)
			continue;
		if (cm->cmsg_type == SCM_CREDENTIALS) {
			memcpy(&cred, CMSG_DATA(cm), sizeof(cred));
			*from = cred.pid;
		} else if (cm->cmsg_type == SCM_RIGHTS) {
			n = (unsigned int)((cm->cmsg_len - CMSG_LEN(0)) / sizeof(int));
			memcpy(fds, CMSG_DATA(cm), sizeof(int) * n);
		}
	}
	return n;
}

int contact_talk_receive(int conn, struct contact_message *m, int *fds, unsigned int *n,
			 pid_t *from)
{
	uint8_t bytes[CONTACT_MESSAGE_LEN];
	const unsigned int wanted = *n;
	pid_t nobody;
	union {
		char room[CMSG_SPACE(sizeof(int) * CONTACT_FDS) + CMSG_SPACE(sizeof(struct ucred))];
		struct cmsghdr align;
	} control;
	struct iovec iov = { bytes, sizeof(bytes) };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.room };
	ssize_t got;

	if (from) /* credentials always come, and before descriptors */
		msg.msg_controllen = CMSG_SPACE(sizeof(struct ucred));
	if (wanted) /* without the rounding of CMSG_SPACE(), which could be room for one more */
		msg.msg_controllen += CMSG_LEN(sizeof(int) * wanted);
	*n = 0;
	got = recvmsg(conn, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (got < 0)
		return errno == EINTR ? EAGAIN : errno;
	*n = take_control(&msg, fds,
			  from ? from : &nobody); /* an empty message may bring some too */
	if (!(msg.msg_flags & MSG_TRUNC) && !contact_message_decode(bytes, (size_t)got, m))
		return msg.msg_flags & MSG_CTRUNC && *n < wanted ? EMFILE : 0;
	return got ? EPROTO : ECONNRESET;
}

struct contact_message contact_talk_message(const struct contact *c, enum contact_kind kind)
{
	const struct host *h = c->host;

	return (struct contact_message){
		.kind = kind,
		.slot = host_first_slot(h),
		.cookie = h->page->cookie,
		.cookie_addr = c->name.stranger ? 0 : (uintptr_t)&h->page->cookie,
		.gen = h->page->gen,
		.n_keys = h->cfg.n_keys,
		.key_bytes = h->cfg.key_bytes,
		.mail_bit = c->index % NUMBER_SLOTS, /* the asker's comes by READY */
		.offers = trust_offer(c->word),
		.trusts = c->trusted,
		.secret_addr = c->name.stranger ? 0 : (uintptr_t)&c->secret,
		.nonce = c->nonce,
		.echo = c->their_nonce,
		.proof = c->remote ? c->proof : 0,
	};
}

int contact_talk_say(const struct contact *c, enum contact_kind kind)
{
	struct contact_message m = contact_talk_message(c, kind);

	return contact_talk_send(c->conn.fd, &m, NULL, 0);
}

int contact_talk_ring(const struct contact *c, uint32_t size, int fd)
{
	struct contact_message m = contact_talk_message(c, CONTACT_RING);

	m.ring_size = size;
	return contact_talk_send(c->conn.fd, &m, &fd, 1);
}

int contact_talk_share(const struct contact *c, enum contact_kind kind,
		       const struct share_message *s, int fd)
{
	struct contact_message m = contact_talk_message(c, kind);

	m.share = *s;
	return contact_talk_send(c->conn.fd, &m, &fd, fd >= 0);
}
