// SPDX-License-Identifier: MIT
/* Real conversations of connection management, between two Linux kernels: each message that an end
 * of ours would have to send there, with what the program gave to it, is theirs byte for byte. */
#include <errno.h>
#include <stdlib.h>
#include "cm/cm_fsm.h"
#include "test.h"
#include "util/be.h"
#include "wire/captures_path.h"
#include "wire/packet.h"

enum { FILE_HEADER = 24, RECORD_HEADER = 16, ETH = 14, UDP = 8, FRAME_MAX = 65536, MADS = 4096 };

static const char *const files[] = { "cm_rping",  "cm_rping_ipv6", "cm_rdma_client", "cm_ucmatose",
				     "cm_cmtime", "cm_reject",	   "cm_reject_race", "cm_sidr",
				     "rsocket",	  "rc_send_bw_cm", "ulp_nvme_rdma" };

static struct {
	struct cm_msg m[MADS];
	size_t n;
	unsigned int connected, ended, rejected, answered;
} s;

/* --- reading --- */

static uint32_t get_le32(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

/* A request's header has the addresses of its packet: ours refuse it otherwise. */
static void compare_addresses(const struct cm_msg *m, const uint8_t *frame, bool v6)
{
	size_t at = ETH + (v6 ? 8 : 12), len = v6 ? 16 : 4;
	struct cm_ip ip;

	if (m->kind != CM_REQ && m->kind != CM_SIDR_REQ)
		return;
	check_eq(cm_ip_parse(m->private_data, m->private_len, &ip), 0);
	check_eq(ip.version, v6 ? 6 : 4);
	check_mem(ip.from + 16 - len, frame + at, len);
	check_mem(ip.to + 16 - len, frame + at + len, len);
}

static void take(const uint8_t *frame)
{
	bool v6 = get_be16(frame + 12) == 0x86dd;
	size_t udp = ETH + (v6 ? 40 : (size_t)(frame[ETH] & 0xf) * 4);
	struct pkt p;

	if ((!v6 && get_be16(frame + 12) != 0x0800) || frame[ETH + (v6 ? 6 : 9)] != 17 ||
	    get_be16(frame + udp + 2) != 4791)
		return;
	check_eq(wire_parse(frame + udp + UDP, get_be16(frame + udp + 4) - (size_t)UDP, &p), 0);
	if (p.dqpn != 1)
		return;
	check(s.n < MADS);
	check_eq(cm_parse(p.payload, p.payload_len, &s.m[s.n]), 0);
	compare_addresses(&s.m[s.n++], frame, v6);
}

static void read_file(const char *name)
{
	static uint8_t frame[FRAME_MAX];
	const char *tests = getenv("SOFTHCA_TESTS"); /* the runner's copy; else the source */
	uint8_t h[FILE_HEADER];
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/captures/%s.pcap", tests ? tests : TESTS, name);
	f = fopen(path, "rb");
	check(f);
	check_eq(fread(h, FILE_HEADER, 1, f), 1);
	while (fread(h, RECORD_HEADER, 1, f) == 1) {
		uint32_t n = get_le32(h + 8);

		check(n <= sizeof(frame) && n >= ETH + 48);
		check_eq(fread(frame, n, 1, f), 1);
		take(frame);
	}
	fclose(f);
}

/* The first one of that kind from the end with id @local to the one with id @remote. */
static const struct cm_msg *find(uint16_t kind, uint32_t local, uint32_t remote)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.m[i].kind == kind && s.m[i].remote_id == remote &&
		    (s.m[i].local_id == local || !local))
			return &s.m[i];
	return NULL;
}

/* --- replaying --- */

/* @tid: whether ours must be theirs; the first message of each kind of exchange has its own. */
static void same(const struct cm_out *out, const struct cm_msg *theirs, bool tid)
{
	uint8_t a[MAD_LEN], b[MAD_LEN];
	struct cm_msg m = out->msg;

	check(out->send);
	if (!tid)
		m.tid = theirs->tid;
	check_eq(cm_build(&m, a), 0);
	check_eq(cm_build(theirs, b), 0);
	check_mem(a, b, MAD_LEN);
}

/* What a program has said of it, without what the machine puts in. */
static struct cm_msg of_program(const struct cm_msg *m)
{
	struct cm_msg p = *m;

	p.tid = p.ca_guid = 0;
	p.local_id = p.remote_id = 0;
	if (p.kind == CM_REQ)
		p.remote_timeout = p.local_timeout = p.max_cm_retries = 0;
	return p;
}

static void starts(struct cm_fsm *active, struct cm_fsm *passive, const struct cm_msg *req)
{
	struct cm_msg p = of_program(req);
	struct cm_out out;

	cm_fsm_init(active, req->local_id, req->ca_guid);
	check_eq(cm_fsm_connect(active, &p, 0, &out), 0);
	same(&out, req, false);
	active->tid = req->tid;
	cm_fsm_requested(passive, req, &out);
	check_eq(out.event, RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void rejects(const struct cm_msg *req, const struct cm_msg *rej)
{
	struct cm_msg p = of_program(rej);
	struct cm_fsm active, passive;
	struct cm_out out;

	cm_fsm_init(&passive, 7, 7);
	starts(&active, &passive, req);
	if (rej->reason == CM_REJ_CONSUMER) {
		check_eq(cm_fsm_reject(&passive, &p, &out), 0);
		same(&out, rej, true);
	}
	for (int i = 0; i <= CM_REFUSALS && active.state == CM_REQ_SENT; i++)
		cm_fsm_message(&active, rej, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_REJECTED);
	check_eq(out.status, rej->reason);
	s.rejected++;
}

static void ends(struct cm_fsm *from, struct cm_fsm *to)
{
	const struct cm_msg *dreq = find(CM_DREQ, from->local_id, to->local_id);
	const struct cm_msg *drep = find(CM_DREP, to->local_id, from->local_id);
	struct cm_out out;

	if (!dreq || !drep || drep->tid != dreq->tid || from->state != CM_ESTABLISHED)
		return;
	check_eq(cm_fsm_disconnect(from, 0, &out), 0);
	same(&out, dreq, false);
	cm_fsm_message(to, dreq, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_DISCONNECTED);
	check_eq(cm_fsm_disconnect(to, 0, &out), 0);
	same(&out, drep, true);
	cm_fsm_message(from, drep, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_DISCONNECTED);
	s.ended++;
}

static void connects(const struct cm_msg *req, const struct cm_msg *rep)
{
	const struct cm_msg *rtu = find(CM_RTU, req->local_id, rep->local_id);
	struct cm_msg p = of_program(rep);
	struct cm_fsm active, passive;
	struct cm_out out;

	cm_fsm_init(&passive, rep->local_id, rep->ca_guid);
	starts(&active, &passive, req);
	check_eq(cm_fsm_accept(&passive, &p, 0, &out), 0);
	same(&out, rep, true);
	cm_fsm_message(&active, rep, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	if (!rtu)
		return;
	check_eq(cm_fsm_establish(&active, &out), 0);
	same(&out, rtu, true);
	cm_fsm_message(&passive, rtu, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_ESTABLISHED);
	s.connected++;
	ends(&active, &passive);
	ends(&passive, &active);
}

static const struct cm_msg *find_answer(const struct cm_msg *question)
{
	for (size_t i = 0; i < s.n; i++)
		if (s.m[i].kind == CM_SIDR_REP && s.m[i].local_id == question->local_id)
			return &s.m[i];
	return NULL;
}

static void answers(const struct cm_msg *question, const struct cm_msg *answer)
{
	struct cm_msg p = of_program(answer);
	struct cm_fsm active, passive;
	struct cm_out out;

	cm_fsm_init(&passive, 7, 7);
	starts(&active, &passive, question);
	check_eq(cm_fsm_accept(&passive, &p, 0, &out), 0);
	same(&out, answer, true);
	cm_fsm_message(&active, answer, 0, &out);
	check_eq(out.event, RDMA_CM_EVENT_ESTABLISHED);
	check_eq(active.remote_qpn, answer->qpn);
	s.answered++;
}

static void replay(const struct cm_msg *m)
{
	const struct cm_msg *rep, *rej;

	if (m->kind == CM_SIDR_REQ && find_answer(m))
		answers(m, find_answer(m));
	if (m->kind != CM_REQ)
		return;
	rep = find(CM_REP, 0, m->local_id);
	rej = find(CM_REJ, 0, m->local_id);
	if (rep)
		connects(m, rep);
	else if (rej)
		rejects(m, rej);
}

TEST(each_message_of_a_real_conversation_is_what_we_would_send)
{
	for (size_t f = 0; f < sizeof(files) / sizeof(files[0]); f++) {
		s.n = 0;
		read_file(files[f]);
		for (size_t i = 0; i < s.n; i++)
			replay(&s.m[i]);
	}
	check_eq(s.connected, 22);
	check_eq(s.rejected, 2);
	check(s.ended >= 20);
	check_eq(s.answered, 2);
}

RUN_TESTS(unit_test(each_message_of_a_real_conversation_is_what_we_would_send))
