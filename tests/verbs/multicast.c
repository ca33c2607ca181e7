// SPDX-License-Identifier: MIT
/* Multicast: each QP of a group gets each datagram once, on both links and with either kind of
 * group; nothing is lost to a member that polls, and one that is stopped holds nobody up for long.
 */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include "verbs/cases.h"
#include "verbs/duo.h"

enum { OTHER_PROCESS, THIS_PROCESS };
enum { SIZE = 4096, ROOM = 40 + SIZE, RECVS = 256, QKEY = 0x11111111 };

static struct duo duo;
static struct ibv_ah *ah;
static const union ibv_gid groups[] = { { .raw = { 0xff, 0x0e, [15] = 9 } },
					{ .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } } };

static struct duo_answer join(struct side *s, const struct duo_order *o)
{
	struct duo_answer a = { .value = (uint64_t)ibv_attach_mcast(s->ep.qp, &groups[o->id], 0) };

	return a;
}

static struct duo_answer leave(struct side *s, const struct duo_order *o)
{
	struct duo_answer a = { .value = (uint64_t)ibv_detach_mcast(s->ep.qp, &groups[o->id], 0) };

	return a;
}

static void begin(int where, uint64_t which)
{
	struct duo_opts o = {
		.qp = { .type = IBV_QPT_UD, .qkey = QKEY, .cap = { RECVS, RECVS, 1, 1, 0 } },
		.together = where == THIS_PROCESS,
		.bytes = (size_t)ROOM * RECVS
	};
	struct ibv_ah_attr a = { .is_global = 1, .port_num = 1 };

	duo_open(&duo, &o);
	a.grh.dgid = groups[which];
	a.grh.sgid_index = PEER_GID_INDEX;
	a.grh.hop_limit = 1;
	ah = ibv_create_ah(duo.near.dev.pd, &a);
	want(ah);
	want_eq(duo_do(&duo, join, 0, 0, which).value, 0);
}

static void send_one(uint32_t number)
{
	struct ibv_sge sg = { (uintptr_t)duo.near.mem, SIZE, duo.near.mr->lkey };
	struct ibv_send_wr wr = { .sg_list = &sg,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND_WITH_IMM,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htobe32(number) };

	wr.wr.ud.ah = ah;
	wr.wr.ud.remote_qpn = 0xffffff;
	wr.wr.ud.remote_qkey = QKEY;
	want_eq(duo_post(&duo, &wr), 0);
}

static void end(uint64_t which)
{
	want_eq(duo_do(&duo, leave, 0, 0, which).value, 0);
	want_eq(ibv_destroy_ah(ah), 0);
	duo_close(&duo);
}

/* As many as there are receives, at once: more than any ring holds. */
static void all_arrive(int where)
{
	for (uint64_t which = 0; which < 2; which++) {
		begin(where, which);
		for (uint32_t i = 0; i < RECVS; i++)
			duo_tell(&duo,
				 (struct duo_order){
					 .op = DUO_RECV, .off = i * ROOM, .len = ROOM, .id = i });
		pattern_fill(duo.near.mem, SIZE, 5, 0);
		for (uint32_t i = 0; i < RECVS; i++)
			send_one(i);
		for (uint32_t i = 0; i < RECVS; i++) {
			struct ibv_wc wc = duo_far_wc(&duo);

			want_eq(wc.status, IBV_WC_SUCCESS);
			want_eq(wc.byte_len, ROOM);
			want_eq(be32toh(wc.imm_data), i);
			want(wc.wc_flags & IBV_WC_GRH);
		}
		for (uint32_t i = 0; i < RECVS; i++)
			want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
		if (duo.o.together)
			want_eq(pattern_check(duo.far.mem + 40, SIZE, 5, 0), SIZE);
		end(which);
	}
}

/* Who has left gets nothing, and whoever was never in it neither: not even its own. */
static void outsiders_get_none(int where)
{
	struct ibv_wc wc;

	begin(where, 1);
	duo_tell(&duo, (struct duo_order){ .op = DUO_RECV, .len = ROOM });
	want_eq(duo_do(&duo, leave, 0, 0, 1).value, 0);
	want_eq(duo_do(&duo, leave, 0, 0, 1).value, EINVAL);
	send_one(1);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(duo_do(&duo, join, 0, 0, 1).value, 0);
	send_one(2);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	wc = duo_far_wc(&duo);
	want_eq(be32toh(wc.imm_data), 2);
	end(1);
}

/* Its ring fills; then the others go on without it. */
static void a_stopped_member_is_left_behind(int arg)
{
	(void)arg;
	begin(OTHER_PROCESS, 0);
	for (int i = 0; i < 2; i++)
		duo_tell(&duo, (struct duo_order){ .op = DUO_RECV, .len = ROOM });
	send_one(77);
	want_eq(be32toh(duo_far_wc(&duo).imm_data), 77);
	want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	want_eq(kill(duo.pid, SIGSTOP), 0);
	for (uint32_t i = 0; i < 20 * RECVS; i++) {
		send_one(i);
		want_eq(duo_wc(&duo).status, IBV_WC_SUCCESS);
	}
	want_eq(kill(duo.pid, SIGCONT), 0);
	want_eq(be32toh(duo_far_wc(&duo).imm_data), 0);
	end(0);
}

int main(void)
{
	static const struct test_case cases[] = {
		CASE_ARG(all_arrive, OTHER_PROCESS),
		CASE_ARG(all_arrive, THIS_PROCESS),
		CASE_ARG(outsiders_get_none, OTHER_PROCESS),
		CASE_ARG(outsiders_get_none, THIS_PROCESS),
		CASE(a_stopped_member_is_left_behind),
	};

	return CASES_RUN(cases);
}
