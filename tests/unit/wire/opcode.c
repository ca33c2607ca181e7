// SPDX-License-Identifier: MIT
#include "test.h"
#include "wire/opcode.h"

/* Operations of each service, as bit masks over the low five bits, and lengths written out by hand
 * from the specification's figures. */
static const struct {
	uint8_t service;
	uint32_t operations;
} known[] = {
	{ SVC_RC, 0x33dfffff },	 { SVC_UC, 0x00000fff },
	{ SVC_DC, 0x00600000 },	 { SVC_UD, 0x00000030 },
	{ SVC_CNP, 0x00000002 }, { SVC_XRC, 0x03dfffff },
	{ SVC_OWN, 31 },	 { 0xe0, 0 },
};

static const struct {
	uint8_t op, ext_len;
} lengths[] = {
	{ 0x00, 0 },  { 0x03, 4 },  { 0x04, 0 },  { 0x05, 4 },	{ 0x06, 16 }, { 0x07, 0 },
	{ 0x0a, 16 }, { 0x0b, 20 }, { 0x0c, 16 }, { 0x0d, 4 },	{ 0x0e, 0 },  { 0x0f, 4 },
	{ 0x10, 4 },  { 0x11, 4 },  { 0x12, 12 }, { 0x13, 28 }, { 0x14, 28 }, { 0x16, 4 },
	{ 0x17, 4 },  { 0x18, 28 }, { 0x19, 28 }, { 0xb8, 32 }, { 0xb9, 32 }, { 0x1c, 20 },
	{ 0x1d, 16 }, { 0x24, 0 },  { 0x2b, 20 }, { 0x64, 8 },	{ 0x65, 12 }, { 0x81, 0 },
	{ 0xa0, 4 },  { 0xab, 24 }, { 0xac, 20 }, { 0xad, 4 },	{ 0xae, 0 },  { 0xb1, 4 },
	{ 0xb2, 12 }, { 0xb3, 32 }, { 0xb7, 8 },  { 0xc0, 0 },	{ 0xc1, 0 },  { 0xc2, 0 },
	{ 0xc3, 0 },  { 0xc4, 0 },  { 0x55, 24 }, { 0x56, 12 },
};

/* Codes of their own: neither request nor response, no header behind the BTH. */
static bool bare(int op)
{
	return op == OP_CNP || op == OP_HELLO || op == OP_REPORT || op == OP_DROPPED ||
	       op == OP_GROUNDS || op == OP_PORT;
}

TEST(exactly_the_specified_codes_exist)
{
	for (int op = 0; op < 256; op++) {
		bool want = known[op >> 5].operations >> (op & OP_MASK) & 1;

		check_eq(known[op >> 5].service, opcode_service((uint8_t)op));
		check_eq(!!opcodes[op].name, want);
		if (want)
			check_eq(opcodes[op].service, opcode_service((uint8_t)op));
	}
}

TEST(extension_headers_have_the_specified_length)
{
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
		check_eq(opcodes[lengths[i].op].ext_len, lengths[i].ext_len);
}

TEST(every_code_has_one_place_and_one_direction)
{
	for (int op = 0; op < 256; op++) {
		uint32_t f = opcodes[op].flags, place = f & (WIRE_ONLY | WIRE_MIDDLE);

		if (!opcodes[op].name)
			continue;
		check(place == WIRE_FIRST || place == WIRE_MIDDLE || place == WIRE_LAST ||
		      place == WIRE_ONLY);
		if (!bare(op))
			check_eq(!!(f & WIRE_REQUEST) + !!(f & WIRE_RESPONSE), 1);
		check_eq(!!(f & WIRE_AETH),
			 !bare(op) && f & WIRE_RESPONSE &&
				 opcode_operation((uint8_t)op) != OP_READ_RESP_MIDDLE);
		check(opcodes[op].ext_len + BTH_LEN <= WIRE_HEADERS_MAX);
	}
}

TEST(place_is_what_the_name_says)
{
	for (int op = 0; op < 256; op++) {
		const char *name = opcodes[op].name;

		if (!name || bare(op))
			continue;
		if (strstr(name, " FIRST"))
			check_eq(opcodes[op].flags & (WIRE_ONLY | WIRE_MIDDLE), WIRE_FIRST);
		else if (strstr(name, " MIDDLE"))
			check_eq(opcodes[op].flags & (WIRE_ONLY | WIRE_MIDDLE), WIRE_MIDDLE);
		else if (strstr(name, " LAST"))
			check_eq(opcodes[op].flags & (WIRE_ONLY | WIRE_MIDDLE), WIRE_LAST);
		else
			check_eq(opcodes[op].flags & (WIRE_ONLY | WIRE_MIDDLE), WIRE_ONLY);
		check_eq(opcode_has((uint8_t)op, WIRE_IMMDT), !!strstr(name, " IMM"));
		check_eq(opcode_has((uint8_t)op, WIRE_IETH), !!strstr(name, " INV"));
	}
}

TEST(names_carry_their_service)
{
	check_str(opcodes[0x04].name, "RC SEND ONLY");
	check_str(opcodes[0x2b].name, "UC WRITE ONLY IMM");
	check_str(opcodes[0x64].name, "UD SEND ONLY");
	check_str(opcodes[0xac].name, "XRC READ REQUEST");
}

RUN_TESTS(unit_test(exactly_the_specified_codes_exist),
	  unit_test(extension_headers_have_the_specified_length),
	  unit_test(every_code_has_one_place_and_one_direction),
	  unit_test(place_is_what_the_name_says), unit_test(names_carry_their_service))
