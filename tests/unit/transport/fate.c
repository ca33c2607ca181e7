// SPDX-License-Identifier: MIT
/* The fate table: what programs see of each verdict. */
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
		{ V_LOCAL_ACCESS, IBV_WC_LOC_ACCESS_ERR, 0x54 },
		{ V_REMOTE_INVALID, IBV_WC_REM_INV_REQ_ERR, 0x8a },
		{ V_REMOTE_ACCESS, IBV_WC_REM_ACCESS_ERR, 0x88 },
		{ V_REMOTE_OP, IBV_WC_REM_OP_ERR, 0x89 },
		{ V_BAD_RESPONSE, IBV_WC_BAD_RESP_ERR, 0x8b },
		{ V_RETRY_EXCEEDED, IBV_WC_RETRY_EXC_ERR, 0x81 },
		{ V_RNR_EXCEEDED, IBV_WC_RNR_RETRY_EXC_ERR, 0x87 },
		{ V_FLUSHED, IBV_WC_WR_FLUSH_ERR, 0xf5 },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct fate *f = fate_of(cases[i].v, IBV_QPT_RC, false);

		check_eq(cqe_status(f->syndrome), cases[i].status);
		check_eq(f->vendor, cases[i].vendor);
		check_eq(f->nak, 0);
		check_eq(f->to_err, cases[i].v != V_FLUSHED);
	}
}

TEST(flushed_receives_have_a_vendor_code_of_their_own)
{
	for (int t = IBV_QPT_RC; t <= IBV_QPT_UD; t++)
		check_eq(fate_of(V_FLUSHED, t, true)->vendor, 0xf9);
}

TEST(only_rc_answers)
{
	for (int v = 0; v < V_COUNT; v++) {
		check_eq(fate_of(v, IBV_QPT_UC, true)->nak, 0);
		check_eq(fate_of(v, IBV_QPT_UD, true)->nak, 0);
	}
	check_eq(fate_of(V_LOCAL_LENGTH, IBV_QPT_RC, true)->nak, aeth_nak(NAK_INVALID_REQUEST));
	check_eq(fate_of(V_REMOTE_INVALID, IBV_QPT_RC, true)->nak, aeth_nak(NAK_INVALID_REQUEST));
	check_eq(fate_of(V_REMOTE_ACCESS, IBV_QPT_RC, true)->nak, aeth_nak(NAK_REMOTE_ACCESS));
	check_eq(fate_of(V_REMOTE_OP, IBV_QPT_RC, true)->nak, aeth_nak(NAK_REMOTE_OPERATIONAL));
	check_eq(fate_of(V_LOCAL_PROT, IBV_QPT_RC, true)->nak, aeth_nak(NAK_REMOTE_OPERATIONAL));
}

RUN_TESTS(unit_test(requester_verdicts_are_the_statuses_programs_know),
	  unit_test(flushed_receives_have_a_vendor_code_of_their_own), unit_test(only_rc_answers))
