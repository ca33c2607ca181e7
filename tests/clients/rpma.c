// SPDX-License-Identifier: MIT
/* A program of librpma, which makes connections by rdma_cm and works by one-sided operations:
 * rpma ADDRESS PORT serves one client, rpma ADDRESS PORT client is one. It writes 64 KiB into the
 * server's memory, flushes them, stores 8 bytes by an atomic write, reads all of it back and
 * compares; then it sends a word, and the server compares what it has. */
#include <inttypes.h>
#include <librpma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BYTES = 65536, WORD = 8, ALL = BYTES + WORD };

static uint8_t *memory; /* the server's ALL bytes; the client's, and ALL more that it reads into */
static struct rpma_peer *peer;
static struct rpma_mr_local *local;

static void must(int ret, const char *call)
{
	if (!ret)
		return;
	fprintf(stderr, "%s: %s\n", call, rpma_err_2str(ret));
	exit(1);
}
#define MUST(call) must(call, #call)

static void fill(uint8_t *at)
{
	for (unsigned int i = 0; i < ALL; i++)
		at[i] = (uint8_t)(i * 7 + i / 251);
}

static void is_filled(const uint8_t *at, const char *where)
{
	uint8_t *want = malloc(ALL);

	if (!want)
		exit(1);
	fill(want);
	if (memcmp(at, want, ALL)) {
		fprintf(stderr, "other bytes %s\n", where);
		exit(1);
	}
	free(want);
}

static void begin(const char *address, enum rpma_util_ibv_context_type type)
{
	const int uses = RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC |
			 RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY |
			 RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;
	struct ibv_context *ctx;

	MUST(rpma_utils_get_ibv_context(address, type, &ctx));
	MUST(rpma_peer_new(ctx, &peer));
	memory = aligned_alloc(4096, 2 * BYTES + 4096);
	if (!memory)
		exit(1);
	memset(memory, 0, 2 * BYTES + 4096);
	MUST(rpma_mr_reg(peer, memory, 2 * BYTES + 4096, uses, &local));
}

static void event(struct rpma_conn *conn, enum rpma_conn_event wanted)
{
	enum rpma_conn_event is;

	MUST(rpma_conn_next_event(conn, &is));
	if (is == wanted)
		return;
	fprintf(stderr, "%s instead of %s\n", rpma_utils_conn_event_2str(is),
		rpma_utils_conn_event_2str(wanted));
	exit(1);
}

static struct ibv_wc completion(struct rpma_conn *conn)
{
	struct rpma_cq *cq;
	struct ibv_wc wc;

	MUST(rpma_conn_get_cq(conn, &cq));
	MUST(rpma_cq_wait(cq));
	MUST(rpma_cq_get_wc(cq, 1, &wc, NULL));
	if (wc.status != IBV_WC_SUCCESS) {
		fprintf(stderr, "a completion with status %d\n", wc.status);
		exit(1);
	}
	return wc;
}

static void serve(const char *address, const char *port)
{
	uint8_t descriptor[64];
	struct rpma_conn_private_data mine = { descriptor, 0 };
	struct rpma_ep *ep;
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	size_t size;

	begin(address, RPMA_UTIL_IBV_CONTEXT_LOCAL);
	MUST(rpma_mr_get_descriptor_size(local, &size));
	if (size > sizeof(descriptor))
		exit(1);
	MUST(rpma_mr_get_descriptor(local, descriptor));
	mine.len = (uint8_t)size;
	MUST(rpma_ep_listen(peer, address, port, &ep));
	MUST(rpma_ep_next_conn_req(ep, NULL, &req));
	MUST(rpma_conn_req_recv(req, local, ALL, WORD, NULL));
	MUST(rpma_conn_req_connect(&req, &mine, &conn));
	event(conn, RPMA_CONN_ESTABLISHED);
	if (completion(conn).opcode != IBV_WC_RECV)
		exit(1);
	is_filled(memory, "in the server's memory");
	MUST(rpma_conn_disconnect(conn));
	event(conn, RPMA_CONN_CLOSED);
	MUST(rpma_conn_delete(&conn));
	MUST(rpma_ep_shutdown(&ep));
}

static void work(struct rpma_conn *conn, struct rpma_mr_remote *there)
{
	fill(memory);
	MUST(rpma_write(conn, there, 0, local, 0, BYTES, RPMA_F_COMPLETION_ON_ERROR, NULL));
	MUST(rpma_atomic_write(conn, there, BYTES, (const char *)memory + BYTES,
			       RPMA_F_COMPLETION_ON_ERROR, NULL));
	MUST(rpma_flush(conn, there, 0, ALL, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
			memory));
	if (completion(conn).wr_id != (uintptr_t)memory)
		exit(1);
	MUST(rpma_read(conn, local, ALL, there, 0, ALL, RPMA_F_COMPLETION_ALWAYS, NULL));
	completion(conn);
	is_filled(memory + ALL, "read back");
	MUST(rpma_send(conn, local, 0, WORD, RPMA_F_COMPLETION_ALWAYS, NULL));
	completion(conn);
}

static void ask(const char *address, const char *port)
{
	struct rpma_conn_private_data theirs;
	struct rpma_conn_req *req;
	struct rpma_conn *conn;
	struct rpma_mr_remote *there;

	begin(address, RPMA_UTIL_IBV_CONTEXT_REMOTE);
	MUST(rpma_conn_req_new(peer, address, port, NULL, &req));
	MUST(rpma_conn_req_connect(&req, NULL, &conn));
	event(conn, RPMA_CONN_ESTABLISHED);
	MUST(rpma_conn_get_private_data(conn, &theirs));
	MUST(rpma_mr_remote_from_descriptor(theirs.ptr, theirs.len, &there));
	work(conn, there);
	event(conn, RPMA_CONN_CLOSED);
	MUST(rpma_mr_remote_delete(&there));
	MUST(rpma_conn_disconnect(conn));
	MUST(rpma_conn_delete(&conn));
}

int main(int argc, char **argv)
{
	if (argc < 3) {
		fprintf(stderr, "usage: rpma ADDRESS PORT [client]\n");
		return 2;
	}
	if (argc > 3)
		ask(argv[1], argv[2]);
	else
		serve(argv[1], argv[2]);
	MUST(rpma_mr_dereg(&local));
	MUST(rpma_peer_delete(&peer));
	free(memory);
	return 0;
}
