// SPDX-License-Identifier: MIT
/* A process of its victim's user without capabilities: root of a container that has the host's
 * network. The kernel does not let it trace the victim, a program with an RC connection to a third
 * process, or with a DC target. It speaks the handshake by itself (speaker.h), and tries to get at
 * the victim's memory, to write into the connection or to end it, to keep others out, and to
 * keep the victim waiting. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include "attacks/speaker.h"
#include "link/number.h"
#include "mlx5dv/dc_duo.h"
#include "peers/contact_talk.h"
#include "util/clock.h"
#include "verbs/cases.h"
#include "verbs/duo.h"
#include "wire/aeth.h"
#include "wire/opcode.h"

enum { LEN = 64, ROUNDS = 20, FILE_LEN = 4096, PSNS = 4, PATIENCE_MS = 60000, TICK_LOG = 10 };

static const char secret[] = "what a stranger must not read";

/* What the victim tells its attacker: more than that could find out. */
struct target {
	pid_t pid;
	uint32_t qpn, sqpn; /* the victim's queue pair, and the one it is connected to */
	uint32_t rq_psn, sq_psn;
	uint32_t rkey, file_rkey; /* of @va, and of a file that peers could map */
	uint64_t va, secret;
	uint32_t first, last; /* sessions, among them that of a DC connection */
};

/* --- the attacker --- */

static void give_up_capabilities(void)
{
	uint32_t header[2] = { 0x20080522, 0 }, none[6] = { 0 }; /* version 3 */

	if (syscall(SYS_capset, header, none) || prctl(PR_SET_DUMPABLE, 1))
		die("capset");
}

/* Else the attack would prove nothing. */
static void kernel_refuses(const struct target *t)
{
	char path[32], byte;
	struct iovec here = { &byte, 1 }, there = { (void *)(uintptr_t)t->secret, 1 };

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)t->pid);
	want(open(path, O_RDONLY | O_CLOEXEC) < 0);
	want(process_vm_readv(t->pid, &here, 1, &there, 1, 0) < 0);
}

static void meet(struct speaker *x, int fd, struct target *t)
{
	struct target nothing = { 0 };

	give_up_capabilities();
	peer_swap(fd, &nothing, t, sizeof(*t));
	kernel_refuses(t);
	/* slots near the victim's may be those of its peers */
	speaker_meet(x, number_slot(t->qpn),
		     (number_slot(t->qpn) + NUMBER_SLOTS / 2) % NUMBER_SLOTS);
}

/* Asks for the file behind a key. The answer comes behind all that was said before. */
static void ask_for_file(struct speaker *x, uint32_t key)
{
	struct contact_message m = { .kind = CONTACT_SHARE, .share.key = key };

	want_eq(contact_talk_send(x->conn, &m, NULL, 0), 0);
	while (speaker_hear(x, &m, PATIENCE_MS) != CONTACT_SHARED)
		want(m.kind);
	want_eq(m.share.key, key);
}

/* The secret is neither at its address, as in a process' memory, nor at the beginning, as in the
 * file. */
static void shows_nothing(int fd, const struct target *t)
{
	char got[sizeof(secret)] = "";
	void *map;

	want(pread(fd, got, sizeof(got), (off_t)t->secret) <= 0 || strcmp(got, secret) != 0);
	want(pread(fd, got, sizeof(got), 0) <= 0 || strcmp(got, secret) != 0);
	want(pwrite(fd, "OVERWRITTEN", 11, (off_t)t->secret) < 0);
	map = mmap(NULL, FILE_LEN, PROT_READ, MAP_SHARED, fd, 0);
	want(map == MAP_FAILED || memcmp(map, secret, sizeof(secret)) != 0);
}

static int wants_memory(int fd, void *arg)
{
	struct speaker x;
	struct target t;

	(void)arg;
	peer_note("attacker");
	meet(&x, fd, &t);
	ask_for_file(&x, t.rkey);
	ask_for_file(&x, t.file_rkey);
	for (unsigned int i = 0; i < x.n_fds; i++)
		shows_nothing(x.fd[i], &t);
	peer_sync(fd);
	return 0;
}

/* What is sealed so is not mapped for writing any more, by nobody. */
static int seals_what_is_shared(int fd, void *arg)
{
	struct speaker x;
	struct target t;

	(void)arg;
	peer_note("attacker");
	meet(&x, fd, &t);
	for (unsigned int i = 0; i < x.n_fds; i++)
		(void)!fcntl(x.fd[i], F_ADD_SEALS, F_SEAL_FUTURE_WRITE);
	peer_sync(fd);
	peer_sync(fd);
	return 0;
}

/* As a segment of the QP that the victim is connected to, of no QP, of the network. */
static void put_as_anybody(struct speaker *x, struct seg s, const struct target *t)
{
	static const uint8_t payload[LEN] = "WRITTEN BY A STRANGER";
	static const uint16_t whose[] = { 0, SEG_SQPN, SEG_NET };

	s.pkey = 0xffff;
	s.dqpn = t->qpn;
	s.npsn = 1;
	for (size_t i = 0; i < sizeof(whose) / sizeof(*whose); i++) {
		s.flags = whose[i];
		s.sqpn = whose[i] & SEG_SQPN ? t->sqpn : 0;
		speaker_put(x, &s, payload);
	}
}

static int writes_into_the_connection(int fd, void *arg)
{
	struct speaker x;
	struct target t;

	(void)arg;
	peer_note("attacker");
	meet(&x, fd, &t);
	for (uint32_t i = 0; i < PSNS; i++) {
		struct seg s = { .psn = t.rq_psn + i, .len = LEN };

		s.op = SVC_RC | OP_SEND_ONLY;
		put_as_anybody(&x, s, &t);
		s.op = SVC_RC | OP_WRITE_ONLY;
		s.va = t.va;
		s.rkey = t.rkey;
		s.dma_len = LEN;
		put_as_anybody(&x, s, &t);
		s = (struct seg){ .op = SVC_RC | OP_ACKNOWLEDGE,
				  .psn = t.sq_psn + i,
				  .msn = i + 1 };
		s.syndrome = AETH_ACK;
		put_as_anybody(&x, s, &t);
		s.syndrome = AETH_NAK | NAK_REMOTE_ACCESS;
		put_as_anybody(&x, s, &t);
	}
	speaker_taken(&x);
	peer_sync(fd);
	peer_sync(fd); /* the contact stays until the victim has looked */
	return 0;
}

/* Says that the initiator leaves, and that it comes anew, with another access key. */
static int ends_connections(int fd, void *arg)
{
	struct speaker x;
	struct target t;

	(void)arg;
	peer_note("attacker");
	meet(&x, fd, &t);
	for (uint32_t session = t.first; session != t.last + 1; session++) {
		struct seg s = { .op = OP_DC_CONNECT,
				 .flags = SEG_SQPN,
				 .pkey = 0xffff,
				 .dqpn = t.qpn,
				 .sqpn = t.sqpn,
				 .npsn = 1,
				 .va = DC_KEY + 1,
				 .rkey = session };

		speaker_put(&x, &s, NULL);
		s.dma_len = 4096;
		s.rkey = t.last + 1;
		speaker_put(&x, &s, NULL);
	}
	speaker_taken(&x);
	peer_sync(fd);
	peer_sync(fd);
	return 0;
}

/* Says of each key that it is told that it is at work under it, and never stops. */
static int holds_keys(int fd, void *arg)
{
	struct speaker x;
	struct target t;

	(void)arg;
	peer_note("attacker");
	meet(&x, fd, &t);
	ask_for_file(&x, t.rkey); /* all that was said has been heard */
	for (int i = 0; i < ROUNDS; i++) {
		uint32_t nothing = 0, key;

		peer_swap(fd, &nothing, &key, sizeof(key));
		x.page->hazard[i % HAZARDS] =
			hazard_word(HAZARD_KEY, x.welcome.slot, x.welcome.gen, key);
		full_fence();
		peer_sync(fd);
	}
	x.page->hazard[HAZARDS - 1] = hazard_word(HAZARD_QP, x.welcome.slot, x.welcome.gen, t.qpn);
	peer_sync(fd);
	peer_sync(fd);
	return 0;
}

/* --- the victim --- */

static struct duo duo;

struct attacked {
	pid_t attacker;
	int fd; /* to it */
	uint8_t *file; /* registered, begins with the secret */
	struct ibv_mr *mr;
};

static void attacked_by(struct attacked *a, int (*attack)(int fd, void *arg))
{
	struct duo_opts o = { .qp = { .type = IBV_QPT_RC } };
	struct target t = { .pid = getpid() }, nothing;

	a->attacker = peer_fork(attack, NULL, &a->fd);
	duo_open(&duo, &o);
	a->file = peer_memory(FILE_LEN, true);
	memcpy(a->file, secret, sizeof(secret));
	memcpy(duo.near.mem + LEN, secret, sizeof(secret));
	a->mr = ibv_reg_mr(duo.near.dev.pd, a->file, FILE_LEN,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	want(a->mr);
	t.qpn = duo.near.ep.mine.qpn;
	t.sqpn = duo.near.ep.theirs.qpn;
	t.rq_psn = duo.near.ep.theirs.psn;
	t.sq_psn = duo.near.ep.mine.psn;
	t.rkey = duo.near.mr->rkey;
	t.file_rkey = a->mr->rkey;
	t.va = (uintptr_t)duo.near.mem;
	t.secret = t.va + LEN;
	peer_swap(a->fd, &t, &nothing, sizeof(t));
}

static void stood(struct attacked *a)
{
	want_eq(peer_wait(a->attacker), 0);
	want_eq(memcmp(duo.near.mem + LEN, secret, sizeof(secret)), 0);
	want_eq(memcmp(a->file, secret, sizeof(secret)), 0);
	want_eq(ibv_dereg_mr(a->mr), 0);
	duo_close(&duo);
	munmap(a->file, FILE_LEN);
	close(a->fd);
}

static void it_gets_no_memory(int arg)
{
	struct attacked a;

	(void)arg;
	attacked_by(&a, wants_memory);
	peer_sync(a.fd);
	stood(&a);
}

static const struct peer_opts plain = { .type = IBV_QPT_RC, .cap = { 16, 16, 4, 4, 64 } };

/* An honest process that comes behind the attacker. */
static int newcomer(int fd, void *arg)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct peer_dev dev;
	struct peer_ep ep;
	struct ibv_wc wc;

	(void)arg;
	peer_note("newcomer");
	peer_sync(fd);
	peer_open(&dev);
	peer_ep_create(&dev, &plain, &ep);
	peer_ep_swap(fd, &ep);
	peer_connect(&ep, &plain);
	peer_sync(fd);
	want_eq(ibv_post_send(ep.qp, &wr, &bad), 0);
	peer_poll_ok(ep.scq, &wc);
	peer_ep_destroy(&ep);
	peer_close(&dev);
	return 0;
}

static void meets(int fd)
{
	struct peer_ep ep;
	struct ibv_wc wc;

	peer_sync(fd);
	peer_ep_create(&duo.near.dev, &plain, &ep);
	peer_ep_swap(fd, &ep);
	peer_connect(&ep, &plain);
	peer_recv(&ep, 1, NULL, 0);
	peer_sync(fd);
	peer_poll_ok(ep.rcq, &wc);
	peer_ep_destroy(&ep);
}

static void it_keeps_no_newcomer_out(int arg)
{
	struct attacked a;
	pid_t pid;
	int fd;

	(void)arg;
	pid = peer_fork(newcomer, NULL, &fd);
	attacked_by(&a, seals_what_is_shared);
	peer_sync(a.fd);
	meets(fd);
	want_eq(peer_wait(pid), 0);
	close(fd);
	peer_sync(a.fd);
	stood(&a);
}

static struct duo_answer far_sends(struct side *s, const struct duo_order *o)
{
	struct ibv_sge sg = { (uintptr_t)s->mem, o->len, s->mr->lkey };
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

/* A SEND waits for a receive at the other side, and a receive for a SEND, while it is attacked. */
static void it_speaks_for_nobody_else(int arg)
{
	struct ibv_sge sg;
	struct attacked a;
	struct ibv_wc wc;

	(void)arg;
	attacked_by(&a, writes_into_the_connection);
	sg = (struct ibv_sge){ (uintptr_t)duo.near.mem + 2 * LEN, LEN, duo.near.mr->lkey };
	memset(duo.near.mem, 0x33, LEN);
	peer_recv(&duo.near.ep, 1, &sg, 1);
	peer_sync(a.fd);
	want(!peer_poll(duo.near.ep.scq, &wc, 0));
	for (int i = 0; i < LEN; i++)
		want_eq(duo.near.mem[i], 0x33);
	want(duo_do(&duo, far_sends, 0, LEN, 0).found);
	peer_poll_ok(duo.near.ep.scq, &wc);
	want_eq(wc.opcode, IBV_WC_RECV);
	duo_tell(&duo, (struct duo_order){ .op = DUO_RECV, .len = LEN });
	duo_send(&duo, IBV_WR_SEND, LEN);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	peer_sync(a.fd);
	stood(&a);
}

static void it_keeps_nobody_waiting(int arg)
{
	struct attacked a;

	(void)arg;
	attacked_by(&a, holds_keys);
	for (int i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = ibv_reg_mr(duo.near.dev.pd, duo.near.mem, LEN,
					       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
		uint32_t nothing;

		want(mr);
		peer_swap(a.fd, &mr->rkey, &nothing, sizeof(nothing));
		peer_sync(a.fd);
		want_eq(ibv_dereg_mr(mr), 0);
	}
	peer_sync(a.fd);
	duo_reconnect(&duo); /* through RESET */
	peer_sync(a.fd);
	stood(&a);
}

/* The initiator is another queue pair of the victim's, and its connection is the only one. */
static void connected(const struct dc_duo *d, struct target *t)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	want_eq(ibv_query_qp(d->i.qp, &a, IBV_QP_DEST_QPN, &init), 0);
	t->qpn = a.dest_qp_num;
	t->sqpn = d->i.qp->qp_num;
	want(t->qpn != d->to[0].dctn);
}

static void write_one(struct dc_duo *d)
{
	dc_post(d, &d->i, IBV_WR_RDMA_WRITE, 0, LEN, 1);
	dc_done(&d->i, 1);
}

static void it_ends_no_connection_of_a_target(int arg)
{
	static struct dc_duo d;
	struct target t = { .pid = getpid() }, nothing;
	struct pollfd p = { .events = POLLIN };
	pid_t pid = peer_fork(ends_connections, NULL, &p.fd);

	(void)arg;
	dc_open(&d, THIS_PROCESS);
	t.secret = (uintptr_t)d.mem;
	t.first = (uint32_t)(clock_now() >> TICK_LOG);
	write_one(&d);
	t.last = (uint32_t)(clock_now() >> TICK_LOG);
	connected(&d, &t);
	peer_swap(p.fd, &t, &nothing, sizeof(t));
	do
		write_one(&d); /* an initiator that is idle for a second connects anew */
	while (!poll(&p, 1, 0));
	peer_sync(p.fd);
	write_one(&d);
	peer_sync(p.fd);
	want_eq(peer_wait(pid), 0);
	dc_close(&d);
	close(p.fd);
}

static const struct test_case cases[] = {
	CASE(it_gets_no_memory),
	CASE(it_keeps_no_newcomer_out),
	CASE(it_speaks_for_nobody_else),
	CASE(it_keeps_nobody_waiting),
	CASE(it_ends_no_connection_of_a_target),
};

int main(void)
{
	return CASES_RUN(cases);
}
