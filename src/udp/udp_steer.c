// SPDX-License-Identifier: MIT
#include "udp/udp_steer.h"
#include <linux/filter.h>
#include <string.h>
#include "link/number.h"
#include "udp/udp_hello.h"
#include "udp/udp_state.h"
#include "util/clock.h"
#include "util/secret.h"
#include "wire/ip.h"

/* ns */
#define FIRST  UINT64_C(50000000) /* doubled each time */
#define MOST   UINT64_C(1000000000)
#define FRESH  UINT64_C(20000000)
#define LOCATE UINT64_C(50000000) /* polls look for answers so long */

#define HASH UINT32_MAX /* no index: the kernel chooses by its hash */

enum {
	HEAD = 14, /* instructions in front of the comparisons */
	DQPN = 4, /* bytes; in requests on XRC an SRQ's number is behind the BTH */
};

#define OP(code, k)	    BPF_STMT(code, k)
#define WHEN(code, k, t, f) BPF_JUMP(BPF_JMP | (code) | BPF_K, k, t, f)

/* X: offset of the number that names the receiver. */
static const struct sock_filter head[HEAD] = {
	OP(BPF_LD | BPF_B | BPF_ABS, 0), /* the opcode */
	WHEN(BPF_JEQ, OP_HELLO, 0, 3),
	OP(BPF_LD | BPF_H | BPF_ABS, BTH_LEN + UDP_HELLO_INDEX),
	OP(BPF_ALU | BPF_SUB | BPF_K, 1), /* index 0 becomes HASH */
	OP(BPF_RET | BPF_A, 0),
	OP(BPF_LDX | BPF_IMM, DQPN),
	WHEN(BPF_JGE, SVC_XRC, 0, 4),
	WHEN(BPF_JGE, SVC_OWN, 3, 0),
	WHEN(BPF_JGE, SVC_XRC | (OP_ATOMIC_ACK + 1), 1, 0),
	WHEN(BPF_JGE, SVC_XRC | OP_READ_RESP_FIRST, 1, 0),
	OP(BPF_LDX | BPF_IMM, BTH_LEN),
	OP(BPF_LD | BPF_W | BPF_IND, 0),
	OP(BPF_ALU | BPF_AND | BPF_K, BITS_24),
	OP(BPF_ALU | BPF_RSH | BPF_K, NUMBER_INDEX_BITS),
};

/* A kernel that takes no filter goes on choosing by its hash. */
static void steer(const struct udp_port *port)
{
	const struct udp_steer *s = &port->steer;
	struct sock_filter code[HEAD + 2 * UDP_STEER_MAX + 1];
	struct sock_fprog program = { .filter = code };
	unsigned int n = HEAD;

	memcpy(code, head, sizeof(head));
	for (unsigned int i = 0; i < UDP_STEER_MAX; i++) {
		if (!s->slot[i])
			continue;
		code[n++] = (struct sock_filter)WHEN(BPF_JEQ, s->slot[i] - 1U, 0, 1);
		code[n++] = (struct sock_filter)OP(BPF_RET | BPF_K, i);
	}
	code[n++] = (struct sock_filter)OP(BPF_RET | BPF_K, HASH);
	program.len = (unsigned short)n;
	if (setsockopt(port->fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)))
		return;
}

/* Asks the socket at @index - 1 of UDP 4791 on the port's own address whose it is. */
static void locate(struct udp_port *port, uint64_t number, uint32_t index)
{
	struct udp_hello h = { .index = (uint16_t)index, .number = number };
	union udp_addr to;

	store_relaxed(&port->asking_until, clock_now() + LOCATE);
	udp_addr_set(&to, &port->gid, port->ifindex, UDP_ROCE_PORT);
	udp_hello_send(port, false, &to, UDP_HELLO_DQPN, &h);
}

static void ask_up_to(struct udp_port *port, uint32_t end)
{
	struct udp_steer *s = &port->steer;

	while (s->asked < end)
		locate(port, s->number, ++s->asked);
}

/* How many indices are asked at first. */
static uint32_t enough(const struct udp_steer *s)
{
	uint32_t n = UDP_STEER_MAX / 2;

	while (2 * n > UDP_STEER_LEAST && !s->slot[n - 1])
		n--;
	return 2 * n;
}

/* Answers to earlier questions do not count any more. */
static void ask(struct udp_port *port)
{
	struct udp_steer *s = &port->steer;

	memset(s->heard, 0, sizeof(s->heard));
	s->asked = s->answers = s->known = 0;
	s->round = clock_now();
	if (!secret_number(&s->number))
		ask_up_to(port, enough(s));
}

void udp_steer_ask(struct udp_port *port, uint64_t now)
{
	struct udp_steer *s = &port->steer;

	if (now - s->at < s->wait || grh_gid_is_group(port->gid.raw))
		return;
	if (s->answers && s->answers < s->asked)
		steer(port); /* some process does not answer: what the others say has to do */
	s->wait = now - s->at > 2 * MOST ? FIRST : s->wait < MOST ? s->wait * 2 : MOST;
	s->at = now;
	s->bare = false;
	s->late = 0;
	ask(port);
}

static bool is_known(const struct udp_steer *s, uint32_t slot)
{
	for (unsigned int i = 0; i < s->asked; i++)
		if (s->heard[i] && s->slot[i] == slot)
			return true;
	return false;
}

/* One process has answered everything. If there are others, no filter is set yet: one that knows no
 * socket makes questions go where they should. But answers that took long say nothing of now. */
static void ask_by_filter(struct udp_port *port)
{
	struct udp_steer *s = &port->steer;

	if (clock_now() - s->round < FRESH) {
		s->bare = true;
		memset(s->slot, 0, sizeof(s->slot));
		steer(port);
	} else if (++s->late > UDP_STEER_LATE) {
		return;
	}
	ask(port);
}

static void all_answered(struct udp_port *port)
{
	struct udp_steer *s = &port->steer;

	if (s->known == 1 && !s->bare)
		ask_by_filter(port);
	else if (s->known == s->asked && s->asked < UDP_STEER_MAX)
		ask_up_to(port, 2 * s->asked);
	else
		steer(port);
}

/* A socket's own index is the first that it answers to, since it is asked first: at another one
 * there is no socket. */
void udp_steer_answered(struct udp_port *port, uint64_t number, uint32_t index, uint32_t slot)
{
	struct udp_steer *s = &port->steer;
	bool known;

	if (!s->number || number != s->number || index > s->asked || s->heard[index - 1] || !slot ||
	    slot > NUMBER_SLOTS)
		return;
	known = is_known(s, slot);
	for (unsigned int i = 0; i < UDP_STEER_MAX && !known; i++)
		if (s->slot[i] == slot)
			s->slot[i] = 0;
	s->slot[index - 1] = known ? 0 : (uint16_t)slot;
	s->heard[index - 1] = true;
	s->known += !known;
	if (++s->answers == s->asked)
		all_answered(port);
}
