// SPDX-License-Identifier: MIT
/* A connected QP and what its peer on the network may send it: requests, responses, ACKs, NAKs,
 * credits, reports and congestion notifications, in any order, while it works. Whatever comes, only
 * memory that its keys allow is written, each request completes at most once, and moved to RESET it
 * is as good as new. The input is a script: the service and whether reports are spoken, then what
 * happens. */
#include "fuzz.h"
#include "sim/rig.h"
#include "wire/aeth.h"
#include "wire/grh.h"
#include "wire/opcode.h"

enum { STEPS = 64, MTU = 256, OPEN_AT = 0x8000, OPEN = 0x4000, RUN = MTU + 8, GUARD = 0x11 };

const struct fuzz_target fuzz_target = { "qp", 1024, 300000 };

static struct rig rig;
static struct rig_qp *qp;
static struct mr *open_mr; /* what the peer may reach: [OPEN_AT, OPEN_AT + OPEN) */
static struct dest_net net;
static unsigned int posted[2]; /* receives, sends */

static void begin(void)
{
	static const struct net_config cfg = { .max_seg = MTU, .delay = 1000 };
	struct rig_attr attr = rig_rc;
	struct mr_attr a = { .len = OPEN, .iova = RIG_IOVA + OPEN_AT };

	attr.access = IBV_ACCESS_LOCAL_WRITE;
	rig_open(&rig, &cfg, 1);
	rig.net.cut = true;
	qp = rig_qp_open(&rig, &attr, GUARD);
	a.addr = qp->mem + OPEN_AT;
	a.access = rig_rc.access;
	if (mr_create(qp->pd, &a, &open_mr))
		abort();
	net.local = (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 10, 0, 0, 1 } };
	net.remote = (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 10, 0, 0, 2 } };
	qp->end.d.net = &net;
	qp->end.d.window = 32;
}

/* Every completion is of something posted. */
static void poll_all(void)
{
	struct cqe c;

	for (int recv = 0; recv < 2; recv++)
		while (rig_poll(qp, recv, &c)) {
			must(posted[!recv]);
			posted[!recv]--;
		}
}

static void packet(struct fuzz_bytes *b, bool uc)
{
	struct grh g = { .next_hdr = GRH_NEXT_UDP };
	uint8_t area[GRH_LEN], what = (uint8_t)fuzz_take(b, 1);
	uint8_t flags = (uint8_t)fuzz_take(b, 1);
	uint32_t base = flags & 1 ? qp->q.req.una : qp->q.rsp.epsn;
	const uint8_t *run;
	struct seg s = {
		.op = what >= SVC_CNP ? what : (uint8_t)((what & OP_MASK) | (uc ? SVC_UC : SVC_RC)),
		.flags = (uint8_t)(SEG_NET | (flags & 2 ? SEG_ACKREQ : 0) |
				   (flags & 4 ? SEG_SOLICITED : 0)),
		.pkey = 0xffff,
		.dqpn = qp->q.qp.qpn,
		.npsn = 1,
		.l3 = GRH_L3_IPV4,
		.grh = area,
		.marked = flags & 8,
	};

	s.psn = psn_add(base, (uint32_t)(int8_t)fuzz_take(b, 1));
	s.syndrome = (uint8_t)fuzz_take(b, 1);
	s.msn = psn_add(qp->q.rsp.msn, (uint32_t)(int8_t)fuzz_take(b, 1));
	s.rkey = flags & 16 ? qp->mr->ib.rkey : open_mr->ib.rkey;
	s.va = RIG_IOVA + OPEN_AT + (uint64_t)(int16_t)fuzz_take(b, 2);
	s.dma_len = (uint32_t)fuzz_take(b, 2);
	s.imm = flags & 32 ? open_mr->ib.rkey : s.dma_len;
	s.swap_add = s.compare = s.dma_len;
	s.len = (uint32_t)fuzz_take_run(b, fuzz_take(b, 2) % RUN, &run);
	s.data = run;
	if (!opcodes[s.op].name || (s.len && !(opcodes[s.op].flags & WIRE_PAYLOAD)))
		return; /* wire_parse() lets it not come so far */
	memcpy(g.sgid, net.remote.raw, sizeof(g.sgid));
	memcpy(g.dgid, net.local.raw, sizeof(g.dgid));
	grh_build(&g, area);
	tqp_input(&qp->q, &s, rig.net.now);
}

static void post(struct fuzz_bytes *b)
{
	static const uint8_t ops[] = { MLX5_OPCODE_SEND,      MLX5_OPCODE_RDMA_WRITE,
				       MLX5_OPCODE_RDMA_READ, MLX5_OPCODE_ATOMIC_FA,
				       MLX5_OPCODE_SEND_IMM,  MLX5_OPCODE_RDMA_WRITE_IMM };
	struct rig_wr w = { .op = ops[fuzz_take(b, 1) % sizeof(ops)],
			    .nsge = 1,
			    .signaled = true,
			    .rkey = 1,
			    .raddr = 0x1000 };
	uint32_t len = w.op == MLX5_OPCODE_ATOMIC_FA ? 8 : (uint32_t)fuzz_take(b, 2) % (24 * MTU);

	w.sge[0] = (struct sge){ RIG_IOVA + OPEN_AT, len, open_mr->ib.lkey };
	if (posted[1] == RIG_SQ / 4)
		return;
	posted[1]++;
	rig_post(qp, &w);
}

static void receive(struct fuzz_bytes *b)
{
	struct sge s = { RIG_IOVA + OPEN_AT, (uint32_t)fuzz_take(b, 2) % OPEN, open_mr->ib.lkey };

	if (posted[0] == RIG_RQ)
		return;
	posted[0]++;
	rig_receive(qp, &s, 1);
}

static void pass_time(struct fuzz_bytes *b)
{
	rig_run_until(&rig, rig.net.now + (UINT64_C(1) << fuzz_take(b, 1) % 26));
}

static void step(struct fuzz_bytes *b, bool uc)
{
	switch (fuzz_take(b, 1) % 6) {
	case 0:
		post(b);
		break;
	case 1:
		receive(b);
		break;
	case 2:
		pass_time(b);
		break;
	default:
		packet(b, uc);
	}
	poll_all();
}

/* Nobody wrote around the memory that the keys allow. */
static void untouched(void)
{
	for (uint32_t i = 0; i < RIG_MEM; i++) {
		if (i == OPEN_AT)
			i += OPEN;
		must(qp->mem[i] == (uint8_t)(GUARD + i * 7 + (i >> 8)));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	uint8_t head = (uint8_t)fuzz_take(&b, 1);
	bool uc = head & 1;
	struct rig_attr attr = rig_rc;
	static unsigned int runs;

	if (!qp)
		begin();
	attr.type = uc ? IBV_QPT_UC : IBV_QPT_RC;
	qp->q.qp.service = service_find(attr.type);
	attr.sq_psn = attr.rq_psn = head & 2 ? 0xfffff0 : 0;
	attr.rnr_retry = head & 8 ? 2 : 7;
	qp->end.d.abilities = head & 4 ? DEST_REPORTS : 0;
	rig_connect(qp, &attr, 0x999);
	for (unsigned int i = 0; i < STEPS && b.left; i++)
		step(&b, uc);
	rig_move(qp, IBV_QPS_ERR);
	rig_run(&rig);
	poll_all();
	must(!posted[0] && !posted[1]);
	rig_move(qp, IBV_QPS_RESET);
	if (!(runs++ % 64))
		untouched();
	return 0;
}
