// SPDX-License-Identifier: MIT
/* Segments as packets: the parts of a message have the opcodes, numbers and bytes that a network
 * would carry, and the right ICRC. */
#include "link/trace.h"
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include "test.h"
#include "util/be.h"
#include "wire/icrc.h"
#include "wire/packet.h"

enum { ETH = 14, UDP = 8, BYTES = 5 * 4096 };

static uint8_t bytes[BYTES];
static struct trace_frame frame;
static struct trace_ends ends = { .qpn = 0x412 };

static void choose_ip(bool ipv4)
{
	static const uint8_t mapped[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
	static const uint8_t six[16] = { 0xfd, 1, [15] = 7 };

	memcpy(ends.local.raw, ipv4 ? mapped : six, 16);
	memcpy(ends.remote.raw, ipv4 ? mapped : six, 16);
	ends.remote.raw[15]++;
	for (unsigned int i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i * 7 + (i >> 8));
}

/* Checks all but the BTH and what follows, which it parses. */
static struct pkt packet(const struct seg *s, uint32_t k, bool ipv4)
{
	size_t ip = ipv4 ? 20 : 40;
	struct pkt p;
	uint32_t crc;

	trace_build(s, k, TRACE_OUT, &ends, &frame);
	check(frame.len > ETH + ip + UDP);
	check_eq(get_be16(frame.b + 12), ipv4 ? 0x0800 : 0x86dd);
	check_eq(get_be16(frame.b + ETH + ip + 2), 4791);
	check_eq(icrc_packet(frame.b + ETH, frame.len - ETH, &crc), 0);
	check_eq(icrc_get(frame.b + frame.len - ICRC_LEN), crc);
	check_eq(wire_parse(frame.b + ETH + ip + UDP, frame.len - ETH - ip - UDP, &p), 0);
	return p;
}

TEST(a_message_becomes_its_packets)
{
	static const struct {
		uint8_t op, first, middle, last;
	} ops[] = {
		{ OP_SEND_ONLY, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST },
		{ OP_SEND_ONLY_IMM, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_IMM },
		{ OP_SEND_ONLY_INV, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_LAST_INV },
		{ OP_SEND_FIRST, OP_SEND_FIRST, OP_SEND_MIDDLE, OP_SEND_MIDDLE },
		{ OP_SEND_MIDDLE, OP_SEND_MIDDLE, OP_SEND_MIDDLE, OP_SEND_MIDDLE },
		{ OP_WRITE_ONLY, OP_WRITE_FIRST, OP_WRITE_MIDDLE, OP_WRITE_LAST },
		{ OP_WRITE_LAST_IMM, OP_WRITE_MIDDLE, OP_WRITE_MIDDLE, OP_WRITE_LAST_IMM },
		{ OP_READ_RESP_ONLY, OP_READ_RESP_FIRST, OP_READ_RESP_MIDDLE, OP_READ_RESP_LAST },
	};

	for (unsigned int i = 0; i < 2 * sizeof(ops) / sizeof(ops[0]); i++) {
		bool ipv4 = i % 2;
		struct seg s = { .op = ops[i / 2].op,
				 .flags = SEG_ACKREQ | SEG_SOLICITED,
				 .pkey = 0xffff,
				 .dqpn = 5,
				 .psn = 0xfffffe,
				 .npsn = 5,
				 .len = BYTES - 100,
				 .data = bytes };

		choose_ip(ipv4);
		check_eq(trace_count(&s), 5);
		for (uint32_t k = 0; k < 5; k++) {
			struct pkt p = packet(&s, k, ipv4);

			check_eq(p.opcode, k == 0   ? ops[i / 2].first
					   : k == 4 ? ops[i / 2].last
						    : ops[i / 2].middle);
			check_eq(p.psn, (0xfffffe + k) & 0xffffff);
			check_eq(p.payload_len, k == 4 ? 4096 - 100 : 4096);
			check_mem(p.payload, bytes + 4096 * k, p.payload_len);
			check_eq(p.ackreq, k == 4);
		}
	}
}

/* The MTU is nowhere said: it is the one that makes so many packets of so many bytes. */
TEST(every_length_is_cut_as_its_sender_counts)
{
	choose_ip(true);
	for (uint32_t mtu = 256; mtu <= 4096; mtu *= 2) {
		for (uint32_t len = 1; len <= 3 * mtu + 1; len += 97) {
			uint32_t n = (len + mtu - 1) / mtu, sum = 0;
			struct seg s = { .op = OP_WRITE_ONLY,
					 .npsn = n,
					 .len = len,
					 .dma_len = len,
					 .data = bytes };

			check_eq(trace_count(&s), n);
			for (uint32_t k = 0; k < n; k++)
				sum += (uint32_t)packet(&s, k, true).payload_len;
			check_eq(sum, len);
		}
	}
}

TEST(an_ack_that_is_carried_is_a_packet_of_its_own)
{
	struct seg s = { .op = OP_SEND_ONLY,
			 .flags = SEG_ACK,
			 .dqpn = 5,
			 .psn = 9,
			 .npsn = 1,
			 .ack_psn = 77,
			 .ack_msn = 3,
			 .len = 10,
			 .data = bytes };
	struct pkt p;

	choose_ip(true);
	check_eq(trace_count(&s), 2);
	p = packet(&s, 0, true);
	check(frame.carried);
	check_eq(p.opcode, OP_ACKNOWLEDGE);
	check_eq(p.psn, 77);
	check_eq(p.msn, 3);
	check_eq(p.dqpn, 5);
	p = packet(&s, 1, true);
	check(!frame.carried);
	check_eq(p.opcode, OP_SEND_ONLY);
	check_eq(p.psn, 9);
}

/* What a hostile peer says is written as far as it is a packet, and never more than fits. */
TEST(nonsense_stays_within_its_frame)
{
	struct seg s = { .len = BYTES, .data = bytes };

	choose_ip(false);
	for (unsigned int op = 0; op < FRAME_OP; op++) {
		s.op = (uint8_t)op;
		for (s.npsn = 0; s.npsn < 9; s.npsn++) {
			check(trace_count(&s) == 1 || (trace_count(&s) == 5 && s.npsn == 5));
			trace_build(&s, 0, TRACE_IN, &ends, &frame);
			check(frame.len <= TRACE_FRAME && !frame.len == !opcodes[op].name);
		}
	}
}

TEST(a_fifo_that_nobody_reads_is_no_trace)
{
	char path[] = "/tmp/softhca-trace-XXXXXX";

	check(mkdtemp(path));
	check_eq(rmdir(path), 0);
	check_eq(mkfifo(path, 0600), 0);
	check(!trace_begin(path));
	unlink(path);
}

/* The file's size after one more packet, where it may have @limit bytes. */
static rlim_t put_one(const char *path, rlim_t limit)
{
	struct rlimit was, less;
	struct stat st;

	check_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
	less = was;
	less.rlim_cur = limit < was.rlim_max ? limit : was.rlim_max;
	check_eq(setrlimit(RLIMIT_FSIZE, &less), 0);
	trace_put(&frame, 0, TRACE_OUT, "");
	check_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
	check_eq(stat(path, &st), 0);
	return (rlim_t)st.st_size;
}

/* Blocks behind half a one are out of place for whoever reads the file. */
TEST(half_a_packet_is_the_last_one)
{
	char path[] = "/tmp/softhca-trace-XXXXXX";
	int fd = mkstemp(path);
	rlim_t whole;

	check(fd >= 0);
	close(fd);
	check(trace_begin(path));
	frame.len = 100;
	whole = put_one(path, RLIM_INFINITY);
	check_eq(put_one(path, whole), whole); /* nothing of it */
	check(put_one(path, RLIM_INFINITY) > whole);
	whole = put_one(path, RLIM_INFINITY);
	check_eq(put_one(path, whole + 33), whole + 33);
	check_eq(put_one(path, RLIM_INFINITY), whole + 33);
	unlink(path);
}

RUN_TESTS(unit_test(a_message_becomes_its_packets),
	  unit_test(every_length_is_cut_as_its_sender_counts),
	  unit_test(an_ack_that_is_carried_is_a_packet_of_its_own),
	  unit_test(a_fifo_that_nobody_reads_is_no_trace), unit_test(half_a_packet_is_the_last_one),
	  unit_test(nonsense_stays_within_its_frame))
