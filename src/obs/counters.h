// SPDX-License-Identifier: MIT
/* Counters of one device port, under the names the kernel gives them in sysfs (counters/ and
 * hw_counters/). Any thread adds, with a relaxed atomic; any reads. All zero is a fresh set, and a
 * set may live in memory that other processes map. */
#pragma once
#include <stddef.h>
#include "util/barrier.h"

/* X(constant, name, folder): PORT is counters/, HW is hw_counters/ */
/* clang-format off */
#define COUNTERS(X) \
	X(PORT_RCV_DATA,		port_rcv_data,			PORT) \
	X(PORT_XMIT_DATA,		port_xmit_data,			PORT) \
	X(PORT_RCV_PACKETS,		port_rcv_packets,		PORT) \
	X(PORT_XMIT_PACKETS,		port_xmit_packets,		PORT) \
	X(UNICAST_RCV_PACKETS,		unicast_rcv_packets,		PORT) \
	X(UNICAST_XMIT_PACKETS,		unicast_xmit_packets,		PORT) \
	X(MULTICAST_RCV_PACKETS,	multicast_rcv_packets,		PORT) \
	X(MULTICAST_XMIT_PACKETS,	multicast_xmit_packets,		PORT) \
	X(PORT_RCV_ERRORS,		port_rcv_errors,		PORT) \
	X(PORT_XMIT_DISCARDS,		port_xmit_discards,		PORT) \
	X(OUT_OF_SEQUENCE,		out_of_sequence,		HW) \
	X(PACKET_SEQ_ERR,		packet_seq_err,			HW) \
	X(IMPLIED_NAK_SEQ_ERR,		implied_nak_seq_err,		HW) \
	X(DUPLICATE_REQUEST,		duplicate_request,		HW) \
	X(LOCAL_ACK_TIMEOUT_ERR,	local_ack_timeout_err,		HW) \
	X(ROCE_ADP_RETRANS,		roce_adp_retrans,		HW) \
	X(RNR_NAK_RETRY_ERR,		rnr_nak_retry_err,		HW) \
	X(OUT_OF_BUFFER,		out_of_buffer,			HW) \
	X(RX_WRITE_REQUESTS,		rx_write_requests,		HW) \
	X(RX_READ_REQUESTS,		rx_read_requests,		HW) \
	X(RX_ATOMIC_REQUESTS,		rx_atomic_requests,		HW) \
	X(REQ_CQE_ERROR,		req_cqe_error,			HW) \
	X(RESP_CQE_ERROR,		resp_cqe_error,			HW) \
	X(REQ_CQE_FLUSH_ERROR,		req_cqe_flush_error,		HW) \
	X(RESP_CQE_FLUSH_ERROR,		resp_cqe_flush_error,		HW) \
	X(REQ_REMOTE_ACCESS_ERRORS,	req_remote_access_errors,	HW) \
	X(RESP_REMOTE_ACCESS_ERRORS,	resp_remote_access_errors,	HW) \
	X(REQ_REMOTE_INVALID_REQUEST,	req_remote_invalid_request,	HW) \
	X(RESP_LOCAL_LENGTH_ERROR,	resp_local_length_error,	HW) \
	X(NP_ECN_MARKED_ROCE_PACKETS,	np_ecn_marked_roce_packets,	HW) \
	X(NP_CNP_SENT,			np_cnp_sent,			HW) \
	X(RP_CNP_HANDLED,		rp_cnp_handled,			HW) \
	X(RX_ICRC_ENCAPSULATED,		rx_icrc_encapsulated,		HW)
/* clang-format on */

enum counter {
#define X(constant, name, folder) COUNTER_##constant,
	COUNTERS(X)
#undef X
		COUNTER_N
};

enum counter_folder { COUNTER_PORT, COUNTER_HW };

struct counters {
	uint64_t v[COUNTER_N]; /* port_*_data in bytes */
};

static inline void counters_add(struct counters *c, enum counter which, uint64_t n)
{
	fetch_add_relaxed(&c->v[which], n);
}

static inline void counters_inc(struct counters *c, enum counter which)
{
	counters_add(c, which, 1);
}

/* As sysfs shows it: port_rcv_data and port_xmit_data in units of 4 bytes. */
uint64_t counters_read(const struct counters *c, enum counter which);

const char *counters_name(enum counter which); /* NULL from COUNTER_N on */
enum counter_folder counters_folder(enum counter which);
enum counter counters_find(const char *name); /* COUNTER_N: no such name */
