// SPDX-License-Identifier: MIT
/* For inject.py: inject NAMESPACE. The victim is connected to a friend on another host. A process
 * of another user on the friend's host knows every number of that connection, and sends into it by
 * plain UDP sockets: requests with the PSNs that are next, answers to what is outstanding, from a
 * port of its own and from every port that the kernel lets it have. Nothing of that is taken.
 *
 * The friend is stopped meanwhile, so that the victim gets the packets of the attacker alone, and
 * counts them. Then the friend goes on, and all arrives that was on its way. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "udp/udp_counts.h"
#include "udp/udp_icrc.h"
#include "util/clock.h"
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "wire/aeth.h"
#include "wire/grh.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum {
	NOBODY = 65534,
	LEN = 64,
	FIRST_PORT = 0xc000, /* of those that queue pairs send from */
	PORTS = 0x4000,
	BURST = 64, /* packets, which every socket buffer has room for */
	FOLLOWING = 2 * BURST, /* messages */
	FAR_AWAY = 1 << 20, /* PSNs */
	ROCE_PORT = 4791,
	PATTERN = 3, /* of the victim's memory */
	FRIENDS = 7, /* of the friend's */
	/* offsets in the victim's memory */
	ATTACKED = 0,
	RECEIVED = 1024,
	READ = 2048,
	SENT = 3072,
};
#define PATIENCE UINT64_C(20000000000)

static const char *far_net;

/* What the victim tells its attacker: more than that could find out. */
struct target {
	struct in_addr from, to;
	enum ibv_qp_type type;
	uint32_t qpn, rkey;
	uint32_t next, una; /* PSNs: of the next request, of the oldest one without an answer */
	uint64_t va;
};

struct burst {
	char what[32];
	uint32_t n; /* packets; 0: that was all */
};

/* --- the attacker --- */

static const uint8_t lie[LEN] = "WRITTEN BY A STRANGER";

struct attack {
	const char *what;
	uint8_t op, syndrome;
	bool answer;
	uint32_t ahead;
};

static const struct attack rc[] = {
	{ "SEND", OP_SEND_ONLY },
	{ "RDMA WRITE", OP_WRITE_ONLY },
	{ "FETCH ADD", OP_FETCH_ADD },
	{ "READ response", OP_READ_RESP_ONLY, AETH_UNLIMITED, true },
	{ "ACK", OP_ACKNOWLEDGE, AETH_UNLIMITED, true },
	{ "NAK", OP_ACKNOWLEDGE, AETH_NAK | NAK_REMOTE_ACCESS, true },
};

static const struct attack uc[] = {
	{ "SEND", OP_SEND_ONLY },
	{ "RDMA WRITE", OP_WRITE_ONLY },
	{ "SEND far ahead", OP_SEND_ONLY, .ahead = FAR_AWAY },
};

static void become_nobody(void)
{
	want_eq(setns(open(far_net, O_RDONLY | O_CLOEXEC), CLONE_NEWNET), 0);
	want_eq(setresgid(NOBODY, NOBODY, NOBODY), 0);
	want_eq(setresuid(NOBODY, NOBODY, NOBODY), 0); /* and no capability is left */
}

/* -1: the kernel refuses it that port. */
static int socket_at(const struct target *t, uint16_t port)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr = t->from,
				  .sin_port = htons(port) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	want(fd >= 0);
	want_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	want_eq(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), 0);
	if (!bind(fd, (struct sockaddr *)&at, sizeof(at)))
		return fd;
	want_eq(errno, EADDRINUSE);
	close(fd);
	return -1;
}

static uint16_t port_of(int fd)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	want_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
	return ntohs(at.sin_port);
}

static void put_gid(uint8_t gid[16], struct in_addr a)
{
	memset(gid, 0, 10);
	gid[10] = gid[11] = 0xff;
	memcpy(gid + 12, &a, 4);
}

static void sign(const struct target *t, uint16_t sport, uint8_t *packet, size_t len)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP, .payload_len = (uint16_t)(8 + len) };
	uint8_t area[GRH_LEN];

	put_gid(g.sgid, t->from);
	put_gid(g.dgid, t->to);
	grh_build(&g, area);
	icrc_put(packet + len - ICRC_LEN, udp_icrc(area, sport, ROCE_PORT, packet, len));
}

static void send_one(int fd, const struct target *t, const struct attack *a, uint32_t psn)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr = t->to,
				  .sin_port = htons(ROCE_PORT) };
	bool plain = a->op == OP_FETCH_ADD || a->op == OP_ACKNOWLEDGE;
	struct pkt p = { .opcode = (t->type == IBV_QPT_UC ? SVC_UC : SVC_RC) | a->op,
			 .pkey = 0xffff,
			 .ackreq = true,
			 .dqpn = t->qpn,
			 .psn = psn & 0xffffff,
			 .va = t->va,
			 .rkey = t->rkey,
			 .dma_len = LEN,
			 .swap_add = 1,
			 .syndrome = a->syndrome,
			 .payload = plain ? NULL : lie,
			 .payload_len = plain ? 0 : LEN };
	uint8_t packet[256];
	size_t len;

	want_eq(wire_build(&p, packet, sizeof(packet), &len), 0);
	sign(t, port_of(fd), packet, len);
	want_eq(sendto(fd, packet, len, 0, (struct sockaddr *)&to, sizeof(to)), (ssize_t)len);
}

/* The victim looks at what it has got. */
static void told(int fd, const char *what, uint32_t n)
{
	struct burst b = { .n = n }, nothing;

	snprintf(b.what, sizeof(b.what), "%s", what);
	peer_swap(fd, &b, &nothing, sizeof(b));
	peer_sync(fd);
}

static void from_one_port(int fd, const struct target *t, const struct attack *a, size_t n)
{
	int s = socket_at(t, 0);

	for (; n--; a++) {
		for (uint32_t i = 0; i < BURST; i++)
			send_one(s, t, a, (a->answer ? t->una : t->next) + a->ahead + i);
		told(fd, a->what, BURST);
	}
	close(s);
}

static void from_every_port(int fd, const struct target *t, const struct attack *a)
{
	uint32_t n = 0, refused = 0;

	for (unsigned int i = 0; i < PORTS; i++) {
		int s = socket_at(t, (uint16_t)(FIRST_PORT + i));

		if (s < 0) {
			refused++;
			continue;
		}
		send_one(s, t, a, t->next);
		close(s);
		if (++n % BURST == 0)
			told(fd, "SEND from any port", BURST);
	}
	if (n % BURST)
		told(fd, "SEND from any port", n % BURST);
	want(refused); /* the friend's own */
}

static int stranger(int fd, void *arg)
{
	struct target nothing = { 0 }, t;

	(void)arg;
	peer_note("attacker");
	become_nobody();
	peer_swap(fd, &nothing, &t, sizeof(t));
	if (t.type == IBV_QPT_UC)
		from_one_port(fd, &t, uc, sizeof(uc) / sizeof(*uc));
	else
		from_one_port(fd, &t, rc, sizeof(rc) / sizeof(*rc));
	from_every_port(fd, &t, t.type == IBV_QPT_UC ? uc : rc);
	told(fd, "", 0);
	return 0;
}

/* --- the friend --- */

static struct duo_answer far_sends(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { (uintptr_t)s->mem + o->off, o->len, s->mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_wc wc;

	want_eq(ibv_post_send(s->ep.qp, &wr, &bad), 0);
	peer_poll_ok(s->ep.scq, &wc);
	return (struct duo_answer){ .found = true };
}

/* --- the victim --- */

static struct duo duo;
static uint32_t messages; /* that the friend has sent */
static uint64_t arrived; /* packets that the victim has got, or is about to get */

static struct udp_counts counts(void)
{
	struct udp_counts c = { 0 };

	want_eq(udp_counts_of(getpid(), &c), 0);
	return c;
}

static void post_receive(void)
{
	struct ibv_sge sg = { (uintptr_t)duo.near.mem + RECEIVED, LEN, duo.near.mr->lkey };

	peer_recv(&duo.near.ep, 1, &sg, 1);
}

/* Into the receive that is posted. */
static void friend_speaks(void)
{
	uint8_t *at = duo.near.mem + RECEIVED;
	struct ibv_wc wc;

	want(duo_do(&duo, far_sends, 0, LEN, 0).found);
	peer_poll_ok(duo.near.ep.rcq, &wc);
	want_eq(wc.opcode, IBV_WC_RECV);
	want_eq(wc.byte_len, LEN);
	want_eq(pattern_check(at, LEN, FRIENDS, 0), LEN);
	pattern_fill(at, LEN, PATTERN, RECEIVED);
	messages++;
}

/* Until the friend's host has said that it is one of ours; and a message more, which heeds it. */
static void meet(enum ibv_qp_type type)
{
	const struct duo_opts o = { .qp = { .type = type, .timeout = 20 },
				    .bytes = 4096,
				    .far_netns = far_net };
	uint64_t end;

	duo_open(&duo, &o);
	pattern_fill(duo.near.mem, duo.near.bytes, PATTERN, 0);
	duo_tell(&duo, (struct duo_order){ .op = DUO_FILL, .id = FRIENDS });
	messages = 0;
	end = clock_now() + PATIENCE / 2;
	do {
		post_receive();
		friend_speaks();
	} while (!counts().answers_received && clock_now() < end);
	post_receive();
	friend_speaks();
}

static void stop_friend(void)
{
	int status;

	duo_tell(&duo, (struct duo_order){ .op = DUO_RECV, .off = RECEIVED, .len = LEN });
	want_eq(kill(duo.pid, SIGSTOP), 0);
	want_eq(waitpid(duo.pid, &status, WUNTRACED), duo.pid);
	want(WIFSTOPPED(status));
	arrived = counts().received;
}

/* A receive, and requests that have no answer as long as the friend is stopped. */
static void begin_work(void)
{
	struct ibv_send_wr wr;
	struct ibv_sge sg;

	post_receive();
	if (duo.o.qp.type == IBV_QPT_UC)
		return;
	wr = duo_wr(&duo, IBV_WR_SEND, &sg, LEN);
	sg.addr += SENT;
	want_eq(duo_post(&duo, &wr), 0);
	wr = duo_wr(&duo, IBV_WR_RDMA_READ, &sg, LEN);
	sg.addr += READ;
	want_eq(duo_post(&duo, &wr), 0);
}

static void end_work(void)
{
	struct ibv_wc wc;

	if (duo.o.qp.type == IBV_QPT_RC) {
		want_eq(duo_far_wc(&duo).opcode, IBV_WC_RECV);
		peer_poll_ok(duo.near.ep.scq, &wc);
		want_eq(wc.opcode, IBV_WC_SEND);
		peer_poll_ok(duo.near.ep.scq, &wc);
		want_eq(wc.opcode, IBV_WC_RDMA_READ);
		want_eq(pattern_check(duo.near.mem + READ, LEN, FRIENDS, 0), LEN);
	}
	for (int i = 0; i < FOLLOWING; i++) {
		friend_speaks();
		post_receive();
	}
}

static enum ibv_qp_state state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	want_eq(ibv_query_qp(duo.near.ep.qp, &a, IBV_QP_STATE, &init), 0);
	return a.qp_state;
}

/* All packets of the burst have come, and nothing else has happened. */
static void nothing_taken(const struct burst *b)
{
	uint64_t end = clock_now() + PATIENCE;
	struct ibv_wc wc;

	peer_note("%s", b->what);
	arrived += b->n;
	do {
		if (peer_poll(duo.near.ep.scq, &wc, 0))
			fail("a stranger's %s was taken: wr_id %llu, status %d", b->what,
			     (unsigned long long)wc.wr_id, wc.status);
		if (clock_now() > end)
			fail("packets of the attacker are missing");
	} while (counts().received < arrived);
	want(!peer_poll(duo.near.ep.scq, &wc, 0));
	want_eq(state(), IBV_QPS_RTS);
	if (pattern_check(duo.near.mem, duo.near.bytes, PATTERN, 0) != duo.near.bytes)
		fail("a stranger's %s has changed the memory", b->what);
}

static void attacked_by(int fd)
{
	const struct peer_ep *ep = &duo.near.ep;
	struct target nothing, t = { .type = duo.o.qp.type,
				     .qpn = ep->mine.qpn,
				     .rkey = duo.near.mr->rkey,
				     .next = ep->theirs.psn + messages,
				     .una = ep->mine.psn,
				     .va = (uintptr_t)duo.near.mem + ATTACKED };
	struct burst b, none = { .n = 0 };

	memcpy(&t.from, ep->theirs.gid.raw + 12, sizeof(t.from));
	memcpy(&t.to, ep->mine.gid.raw + 12, sizeof(t.to));
	peer_swap(fd, &t, &nothing, sizeof(t));
	for (;;) {
		peer_swap(fd, &none, &b, sizeof(b));
		if (b.n)
			nothing_taken(&b);
		peer_sync(fd);
		if (!b.n)
			return;
	}
}

static bool there_are_other_users(void)
{
	unsigned int inside, outside, n = 0;
	FILE *f = fopen("/proc/self/uid_map", "re");

	want(f);
	want_eq(fscanf(f, "%u %u %u", &inside, &outside, &n), 3);
	fclose(f);
	return n > NOBODY;
}

static void nothing_is_taken(int type)
{
	pid_t pid;
	int fd;

	if (!there_are_other_users())
		case_skip("there is no other user");
	pid = peer_fork(stranger, NULL, &fd);
	meet((enum ibv_qp_type)type);
	stop_friend();
	begin_work();
	attacked_by(fd);
	want_eq(peer_wait(pid), 0);
	want_eq(kill(duo.pid, SIGCONT), 0);
	end_work();
	duo_close(&duo);
	close(fd);
}

static const struct test_case cases[] = {
	CASE_ARG(nothing_is_taken, IBV_QPT_RC),
	CASE_ARG(nothing_is_taken, IBV_QPT_UC),
};

int main(int argc, char **argv)
{
	want_eq(argc, 2);
	far_net = argv[1];
	return CASES_RUN(cases);
}
