// SPDX-License-Identifier: MIT
/* The fate tables: what programs and peers see of each verdict. */
#include "test.h"
#include "prm/cqe.h"
#include "transport/fate.h"
#include "wire/aeth.h"

TEST(requester_verdicts_are_the_statuses_programs_know)
{
	static const struct {
		enum verdict v;
		enum ibv_wc_status status;
		uint8_t vendor;
	} cases[] = {
		{ V_LOCAL_LENGTH, IBV_WC_LOC_LEN_ERR, 0x6a },
		{ V_LOCAL_QP_OP, IBV_WC_LOC_QP_OP_ERR, 0x52 },
		{ V_LOCAL_PROT, IBV_WC_LOC_PROT_ERR, 0x53 },
		{ V_REMOTE_INVALID, IBV_WC_REM_INV_REQ_ERR, 0x8a },
		{ V_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR, 0x88 },
		{ V_REMOTE_OP, IBV_WC_REM_OP_ERR, 0x89 },
		{ V_BAD_RESPONSE, IBV_WC_BAD_RESP_ERR, 0x8b },
		{ V_RETRY_EXCEEDED, IBV_WC_RETRY_EXC_ERR, 0x81 },
		{ V_RNR_EXCEEDED, IBV_WC_RNR_RETRY_EXC_ERR, 0x87 },
		{ V_FLUSHED, IBV_WC_WR_FLUSH_ERR, 0xf5 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fate_code *f = fate_at_requester(cases[i].v);

		check_eq(cqe_status(f->syndrome), cases[i].status);
		check_eq(f->vendor, cases[i].vendor);
	}
}

TEST(every_verdict_completes_a_send)
{
	for (int v = V_OK + 1; v < V_RESPONDER; v++) {
		check_ne(fate_at_requester(v)->syndrome, 0);
		check_ne(fate_at_requester(v)->vendor, 0);
	}
}

TEST(flushed_receives_have_a_vendor_code_of_their_own)
{
	for (int reliable = 0; reliable < 2; reliable++) {
		const struct fate *f = fate_at_responder(V_FLUSHED, reliable);

		check_eq(f->receive.vendor, 0xf9);
		check(!f->nak && !f->to_err && !f->has_event);
	}
}

TEST(only_rc_answers)
{
	static const struct {
		enum verdict v;
		uint8_t nak;
	} cases[] = {
		{ V_LOCAL_LENGTH, NAK_INVALID_REQUEST },  { V_REMOTE_INVALID, NAK_INVALID_REQUEST },
		{ V_REMOTE_ACCESS, NAK_REMOTE_ACCESS },	  { V_REMOTE_OP, NAK_REMOTE_OPERATIONAL },
		{ V_LOCAL_PROT, NAK_REMOTE_OPERATIONAL },
	};

	for (int v = 0; v < V_COUNT; v++)
		check_eq(fate_at_responder(v, false)->nak, 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		check_eq(fate_at_responder(cases[i].v, true)->nak, aeth_nak(cases[i].nak));
}

/* A refusal that no receive completion tells of raises an event, and only then. */
TEST(a_refusal_is_a_completion_or_an_event)
{
	static const struct {
		enum verdict v;
		enum ibv_event_type event; /* IBV_EVENT_CQ_ERR: none */
	} cases[] = {
		{ V_LOCAL_LENGTH, IBV_EVENT_CQ_ERR },
		{ V_LOCAL_PROT, IBV_EVENT_CQ_ERR },
		{ V_REMOTE_INVALID, IBV_EVENT_QP_REQ_ERR },
		{ V_REMOTE_ACCESS, IBV_EVENT_QP_ACCESS_ERR },
		{ V_REMOTE_OP, IBV_EVENT_QP_FATAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fate *rc = fate_at_responder(cases[i].v, true);
		const struct fate *ud = fate_at_responder(cases[i].v, false);
		bool completes = rc->receive.syndrome;

		check(rc->to_err);
		check_eq(rc->has_event, !completes);
		check_eq(rc->event, cases[i].event);
		check_eq(ud->receive.syndrome, rc->receive.syndrome);
		check_eq(ud->to_err, completes);
		check(!ud->has_event);
	}
}

/* UC says nothing of them to anybody. */
TEST(what_only_the_receive_of_rc_reports)
{
	static const struct {
		enum verdict v;
		enum ibv_wc_status status;
		uint8_t nak;
	} cases[] = {
		{ V_LOCAL_ACCESS, IBV_WC_LOC_ACCESS_ERR, AETH_NAK | NAK_REMOTE_ACCESS },
		{ V_INVALIDATE, IBV_WC_REM_INV_REQ_ERR, 0 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fate *rc = fate_at_responder(cases[i].v, true);
		const struct fate *uc = fate_at_responder(cases[i].v, false);

		check_eq(cqe_status(rc->receive.syndrome), cases[i].status);
		check_eq(rc->nak, cases[i].nak);
		check(rc->to_err && !rc->has_event);
		check(!uc->receive.syndrome && !uc->nak && !uc->to_err && !uc->has_event);
	}
}

RUN_TESTS(unit_test(requester_verdicts_are_the_statuses_programs_know),
	  unit_test(every_verdict_completes_a_send),
	  unit_test(flushed_receives_have_a_vendor_code_of_their_own), unit_test(only_rc_answers),
	  unit_test(a_refusal_is_a_completion_or_an_event),
	  unit_test(what_only_the_receive_of_rc_reports))
