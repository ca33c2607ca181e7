// SPDX-License-Identifier: MIT
#include "udp/udp_seen.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "udp/udp_state.h"
#include "util/be.h"
#include "util/rand.h"
#include "util/uncancelled.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum {
	IP_MIN = 20,
	IP_MAX = 60,
	SNAP = IP_MAX + UDP_LEN + BTH_LEN, /* bytes of a packet that are looked at */
	GENERATION = 2048, /* packets remembered at least; twice that at most */
	SLOTS = 4 * GENERATION,
	READ_MAX = 4096, /* packets read for one question: a peer may send faster than we read */
	BATCH = 64,
};

struct generation {
	uint64_t slot[SLOTS]; /* hashes, 0: free */
	uint32_t n;
};

struct udp_seen {
	int fd;
	bool begun; /* a packet of the UDP socket was seen, and so are those behind it */
	uint32_t drops; /* of the socket, when last looked */
	uint32_t now; /* the generation that is being filled */
	struct generation gen[2];
	struct mmsghdr msg[BATCH];
	struct iovec iov[BATCH];
	uint8_t packet[BATCH][SNAP];
};

/* --- what was seen --- */

static uint64_t digest(const struct udp_seen_packet *p, uint16_t id)
{
	uint64_t x = (uint64_t)p->addr << 32 | (uint32_t)p->port << 16 | p->len, h, w;

	h = rand_mix(&x);
	memcpy(&w, p->bth, sizeof(w));
	x = h ^ w;
	h = rand_mix(&x);
	x = h ^ get_be32(p->bth + 8) ^ (uint64_t)id << 32;
	h = rand_mix(&x);
	return h ? h : 1;
}

/* The slot of @h, or the free one where it belongs. */
static uint64_t *slot_of(struct generation *g, uint64_t h)
{
	uint64_t i = h % SLOTS;

	while (g->slot[i] && g->slot[i] != h)
		i = (i + 1) % SLOTS;
	return &g->slot[i];
}

static void remember(struct udp_seen *s, uint64_t h)
{
	struct generation *g = &s->gen[s->now];
	uint64_t *slot;

	if (g->n == GENERATION) {
		s->now = !s->now;
		g = &s->gen[s->now];
		memset(g, 0, sizeof(*g));
	}
	slot = slot_of(g, h);
	g->n += !*slot;
	*slot = h;
}

static bool remembered(struct udp_seen *s, uint64_t h)
{
	return *slot_of(&s->gen[0], h) || *slot_of(&s->gen[1], h);
}

/* --- the socket --- */

static void take(struct udp_seen *s, const uint8_t *ip, size_t n)
{
	size_t head = (size_t)(ip[0] & 0xf) * 4;
	struct udp_seen_packet p;

	if (n < IP_MIN || head < IP_MIN || n < head + UDP_LEN + BTH_LEN)
		return;
	memcpy(&p.addr, ip + 12, sizeof(p.addr));
	memcpy(&p.port, ip + head, sizeof(p.port));
	p.len = (uint16_t)(get_be16(ip + head + 4) - UDP_LEN);
	p.bth = ip + head + UDP_LEN;
	remember(s, digest(&p, get_be16(ip + 4)));
}

static void read_all(struct udp_seen *s)
{
	for (unsigned int done = 0; done < READ_MAX;) {
		int n;

		for (unsigned int i = 0; i < BATCH; i++) {
			s->iov[i] = (struct iovec){ s->packet[i], SNAP };
			s->msg[i].msg_hdr =
				(struct msghdr){ .msg_iov = &s->iov[i], .msg_iovlen = 1 };
		}
		UNCANCELLED(n, recvmmsg(s->fd, s->msg, BATCH, MSG_DONTWAIT, NULL));
		if (n <= 0)
			return;
		for (int i = 0; i < n; i++)
			take(s, s->packet[i], s->msg[i].msg_len);
		done += (unsigned int)n;
	}
}

/* Did the socket have no room for something since the last look? */
static bool missed(struct udp_seen *s)
{
	uint32_t info[SK_MEMINFO_VARS];
	socklen_t len = sizeof(info);
	uint32_t drops;

	if (getsockopt(s->fd, SOL_SOCKET, SO_MEMINFO, info, &len) ||
	    len < (SK_MEMINFO_DROPS + 1) * sizeof(info[0]))
		return true;
	drops = info[SK_MEMINFO_DROPS];
	if (drops == s->drops)
		return false;
	s->drops = drops;
	return true;
}

enum udp_seen_verdict udp_seen_ask(struct udp_seen *s, const struct udp_seen_packet *p, uint16_t id)
{
	uint64_t h = digest(p, id);

	if (!remembered(s, h))
		read_all(s);
	if (remembered(s, h)) {
		s->begun = true;
		return UDP_SEEN_YES;
	}
	return missed(s) || !s->begun ? UDP_SEEN_MISSED : UDP_SEEN_NO;
}

/* Whole packets to UDP 4791 whose identification is not 0. */
static int set_filter(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 2), /* length */
		BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, IP_MAX + UDP_LEN + UDP_PACKET_MAX, 8, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 4), /* identification */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 6, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_ABS, 6), /* fragments */
		BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x3fff, 4, 0),
		BPF_STMT(BPF_LDX | BPF_B | BPF_MSH, 0),
		BPF_STMT(BPF_LD | BPF_H | BPF_IND, 2), /* destination port */
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, UDP_ROCE_PORT, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SNAP),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog prog = { sizeof(code) / sizeof(code[0]), code };

	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) ? errno : 0;
}

static int open_socket(const union ibv_gid *local, int *out)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP), err;

	if (fd < 0)
		return errno;
	err = set_filter(fd);
	udp_socket_receive_buffer(fd);
	memcpy(&to.sin_addr, local->raw + 12, sizeof(to.sin_addr));
	if (!err && bind(fd, (struct sockaddr *)&to, sizeof(to)))
		err = errno;
	if (err)
		close(fd);
	else
		*out = fd;
	return err;
}

int udp_seen_open(const union ibv_gid *local, struct udp_seen **out)
{
	int fd = -1, err = open_socket(local, &fd);
	struct udp_seen *s;

	if (err)
		return err;
	s = calloc(1, sizeof(*s));
	if (!s) {
		close(fd);
		return ENOMEM;
	}
	s->fd = fd;
	*out = s;
	return 0;
}

void udp_seen_free(struct udp_seen *s)
{
	if (!s)
		return;
	close(s->fd);
	free(s);
}
