// SPDX-License-Identifier: MIT
#include "wire/opcode.h"

#define LEN_OF(flags, h) ((flags)&WIRE_##h ? h##_LEN : 0)
#define EXT_LEN(f)                                                                                 \
	(LEN_OF(f, XRCETH) + LEN_OF(f, FETH) + LEN_OF(f, RETH) + LEN_OF(f, ATOMICETH) +            \
	 LEN_OF(f, DETH) + LEN_OF(f, AETH) + LEN_OF(f, ATOMICACKETH) + LEN_OF(f, IMMDT) +          \
	 LEN_OF(f, IETH))

#define ENTRY(svc, op, text, f)                                                                    \
	[SVC_##svc | (OP_##op & OP_MASK)] = { #svc " " text, (f), SVC_##svc, EXT_LEN(f) }

/* Kinds, one letter a word: FIRST, MIDDLE, LAST, ONLY of a reQuest or a resPonse, with Data or
 * not. */
#define FRST_QD (WIRE_FIRST | WIRE_REQUEST | WIRE_PAYLOAD)
#define MIDL_QD (WIRE_MIDDLE | WIRE_REQUEST | WIRE_PAYLOAD)
#define LAST_QD (WIRE_LAST | WIRE_REQUEST | WIRE_PAYLOAD)
#define ONLY_QD (WIRE_ONLY | WIRE_REQUEST | WIRE_PAYLOAD)
#define ONLY_Q	(WIRE_ONLY | WIRE_REQUEST)
#define FRST_PD (WIRE_FIRST | WIRE_RESPONSE | WIRE_PAYLOAD)
#define MIDL_PD (WIRE_MIDDLE | WIRE_RESPONSE | WIRE_PAYLOAD)
#define LAST_PD (WIRE_LAST | WIRE_RESPONSE | WIRE_PAYLOAD)
#define ONLY_PD (WIRE_ONLY | WIRE_RESPONSE | WIRE_PAYLOAD)
#define ONLY_P	(WIRE_ONLY | WIRE_RESPONSE)

/* Requests have an XRCETH on XRC, responses have none. */
#define XRC_ENTRY(op, text, f) ENTRY(XRC, op, text, (f) | ((f)&WIRE_REQUEST ? WIRE_XRCETH : 0))

/* The services that know an operation. */
#define RC__________(op, text, f) ENTRY(RC, op, text, f)
#define RC_______XRC(op, text, f) RC__________(op, text, f), XRC_ENTRY(op, text, f)
#define RC_UC____XRC(op, text, f) RC_______XRC(op, text, f), ENTRY(UC, op, text, f)
#define RC_UC_UD_XRC(op, text, f) RC_UC____XRC(op, text, f), ENTRY(UD, op, text, (f) | WIRE_DETH)

/* clang-format off */
const struct opcode opcodes[256] = {
	/* services  operation          name                kind      extension headers */
	RC_UC____XRC(SEND_FIRST,       "SEND FIRST",       FRST_QD),
	RC_UC____XRC(SEND_MIDDLE,      "SEND MIDDLE",      MIDL_QD),
	RC_UC____XRC(SEND_LAST,        "SEND LAST",        LAST_QD),
	RC_UC____XRC(SEND_LAST_IMM,    "SEND LAST IMM",    LAST_QD | WIRE_IMMDT),
	RC_UC_UD_XRC(SEND_ONLY,        "SEND ONLY",        ONLY_QD),
	RC_UC_UD_XRC(SEND_ONLY_IMM,    "SEND ONLY IMM",    ONLY_QD | WIRE_IMMDT),
	RC_UC____XRC(WRITE_FIRST,      "WRITE FIRST",      FRST_QD | WIRE_RETH),
	RC_UC____XRC(WRITE_MIDDLE,     "WRITE MIDDLE",     MIDL_QD),
	RC_UC____XRC(WRITE_LAST,       "WRITE LAST",       LAST_QD),
	RC_UC____XRC(WRITE_LAST_IMM,   "WRITE LAST IMM",   LAST_QD | WIRE_IMMDT),
	RC_UC____XRC(WRITE_ONLY,       "WRITE ONLY",       ONLY_QD | WIRE_RETH),
	RC_UC____XRC(WRITE_ONLY_IMM,   "WRITE ONLY IMM",   ONLY_QD | WIRE_RETH | WIRE_IMMDT),
	RC_______XRC(READ_REQUEST,     "READ REQUEST",     ONLY_Q  | WIRE_RETH),
	RC_______XRC(READ_RESP_FIRST,  "READ RESP FIRST",  FRST_PD | WIRE_AETH),
	RC_______XRC(READ_RESP_MIDDLE, "READ RESP MIDDLE", MIDL_PD),
	RC_______XRC(READ_RESP_LAST,   "READ RESP LAST",   LAST_PD | WIRE_AETH),
	RC_______XRC(READ_RESP_ONLY,   "READ RESP ONLY",   ONLY_PD | WIRE_AETH),
	RC_______XRC(ACKNOWLEDGE,      "ACKNOWLEDGE",      ONLY_P  | WIRE_AETH),
	RC_______XRC(ATOMIC_ACK,       "ATOMIC ACK",       ONLY_P  | WIRE_AETH | WIRE_ATOMICACKETH),
	RC_______XRC(COMPARE_SWAP,     "COMPARE SWAP",     ONLY_Q  | WIRE_ATOMICETH),
	RC_______XRC(FETCH_ADD,        "FETCH ADD",        ONLY_Q  | WIRE_ATOMICETH),
	RC_______XRC(SEND_LAST_INV,    "SEND LAST INV",    LAST_QD | WIRE_IETH),
	RC_______XRC(SEND_ONLY_INV,    "SEND ONLY INV",    ONLY_QD | WIRE_IETH),
	/* payload: the masks (docs/design/atomics.md) */
	RC_______XRC(MASKED_SWAP,      "MASKED SWAP",      ONLY_QD | WIRE_ATOMICETH),
	RC_______XRC(MASKED_ADD,       "MASKED ADD",       ONLY_QD | WIRE_ATOMICETH),
	RC__________(FLUSH,            "FLUSH",            ONLY_Q  | WIRE_FETH | WIRE_RETH),
	RC__________(ATOMIC_WRITE,     "ATOMIC WRITE",     ONLY_QD | WIRE_RETH),
	/* what the headers mean: docs/design/dynamically-connected.md */
	[OP_DC_CONNECT] = { "DC CONNECT", ONLY_Q | WIRE_RETH | WIRE_DETH, SVC_DC,
			    RETH_LEN + DETH_LEN },
	[OP_DC_ANSWER] = { "DC ANSWER", ONLY_P | WIRE_DETH | WIRE_AETH, SVC_DC,
			   DETH_LEN + AETH_LEN },
	/* 16 reserved bytes follow its BTH: payload to us */
	[OP_CNP] = { "CNP", WIRE_ONLY | WIRE_PAYLOAD, SVC_CNP, 0 },
	[OP_HELLO] = { "HELLO", WIRE_ONLY | WIRE_PAYLOAD, SVC_OWN, 0 },
	[OP_REPORT] = { "REPORT", WIRE_ONLY | WIRE_PAYLOAD, SVC_OWN, 0 },
	[OP_DROPPED] = { "DROPPED", WIRE_ONLY, SVC_OWN, 0 },
	[OP_GROUNDS] = { "GROUNDS", WIRE_ONLY | WIRE_PAYLOAD, SVC_OWN, 0 },
	[OP_PORT] = { "PORT", WIRE_ONLY | WIRE_PAYLOAD, SVC_OWN, 0 },
};
/* clang-format on */
