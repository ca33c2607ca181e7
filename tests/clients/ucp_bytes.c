// SPDX-License-Identifier: MIT
/* Every byte by UCX: tagged and active messages, streams, puts and gets of all kinds of lengths,
 * atomics, both ways between two processes. What arrives is compared, and for puts the memory
 * around it, too.
 *
 *	ucp_bytes [ROUNDS] */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

enum { WINDOW = 2 << 20, MOST = 1 << 20, GUARD = 64, WORD = WINDOW - 64, AM_ID = 5 };

static const size_t lengths[] = { 1, 8, 100, 1024, 4096, 8193, 65537, MOST };

static struct {
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_ep_h ep;
	ucp_rkey_h rkey;
	uint64_t remote; /* address of the peer's window */
	uint8_t *window, *buf;
	int fd, me;
	unsigned int transfers;
} end;

static struct { /* an active message that has come */
	bool there;
	uint64_t number;
	size_t len;
	void *later; /* its data have yet to be asked for; else they are in end.buf */
} came;

static void die(const char *what, ucs_status_t status)
{
	fprintf(stderr, "ucp_bytes: side %d, transfer %u: %s: %s\n", end.me, end.transfers, what,
		ucs_status_string(status));
	exit(1);
}

static void must(ucs_status_t status, const char *what)
{
	if (status != UCS_OK)
		die(what, status);
}

static void finish(void *request, const char *what)
{
	ucs_status_t status;

	if (!request)
		return;
	if (UCS_PTR_IS_ERR(request))
		die(what, UCS_PTR_STATUS(request));
	while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
		ucp_worker_progress(end.worker);
	ucp_request_free(request);
	must(status, what);
}

/* Waits for the peer, which may need this side's worker meanwhile. */
static void meet(void)
{
	char byte = 1;

	if (send(end.fd, &byte, 1, 0) != 1)
		exit(1);
	while (recv(end.fd, &byte, 1, MSG_DONTWAIT) != 1)
		ucp_worker_progress(end.worker);
}

static uint8_t pattern(size_t i, unsigned int seed)
{
	return (uint8_t)(i * 31 + (i >> 8) * 7 + seed * 101);
}

static void fill(uint8_t *p, size_t n, unsigned int seed)
{
	for (size_t i = 0; i < n; i++)
		p[i] = pattern(i, seed);
}

static void compare(const uint8_t *p, size_t n, unsigned int seed, const char *what)
{
	for (size_t i = 0; i < n; i++)
		if (p[i] != pattern(i, seed)) {
			fprintf(stderr, "ucp_bytes: %s of %zu B: byte %zu is %02x, not %02x\n",
				what, n, i, p[i], pattern(i, seed));
			exit(1);
		}
}

static void by_tag(bool sends, size_t n, unsigned int seed)
{
	ucp_request_param_t plain = { 0 };

	if (sends)
		finish(ucp_tag_send_nbx(end.ep, end.buf, n, seed, &plain), "tag send");
	else
		finish(ucp_tag_recv_nbx(end.worker, end.buf, n, seed, UINT64_MAX, &plain),
		       "tag receive");
}

static void by_stream(bool sends, size_t n, unsigned int seed)
{
	ucp_request_param_t plain = { 0 }, all = { .op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
						   .flags = UCP_STREAM_RECV_FLAG_WAITALL };
	size_t got = 0;

	(void)seed;
	if (sends)
		finish(ucp_stream_send_nbx(end.ep, end.buf, n, &plain), "stream send");
	else
		finish(ucp_stream_recv_nbx(end.ep, end.buf, n, &got, &all), "stream receive");
}

static ucs_status_t on_message(void *arg, const void *header, size_t header_len, void *data,
			       size_t len, const ucp_am_recv_param_t *param)
{
	(void)arg;
	if (header_len != sizeof(came.number) || len > MOST)
		die("the header of an active message", UCS_ERR_INVALID_PARAM);
	memcpy(&came.number, header, sizeof(came.number));
	came.len = len;
	came.there = true;
	came.later = param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV ? data : NULL;
	if (came.later)
		return UCS_INPROGRESS;
	memcpy(end.buf, data, len);
	return UCS_OK;
}

static void by_active_message(bool sends, size_t n, unsigned int seed)
{
	ucp_request_param_t plain = { 0 };
	uint64_t number = seed;

	if (sends) {
		finish(ucp_am_send_nbx(end.ep, AM_ID, &number, sizeof(number), end.buf, n, &plain),
		       "active message");
		return;
	}
	while (!came.there)
		ucp_worker_progress(end.worker);
	if (came.number != seed || came.len != n)
		die("another active message", UCS_ERR_INVALID_PARAM);
	if (came.later)
		finish(ucp_am_recv_data_nbx(end.worker, came.later, end.buf, n, &plain),
		       "data of an active message");
	came.there = false;
}

static void flush(void)
{
	ucp_request_param_t plain = { 0 };

	finish(ucp_ep_flush_nbx(end.ep, &plain), "flush");
}

static void put(bool sends, size_t n, unsigned int seed)
{
	ucp_request_param_t plain = { 0 };
	size_t at = GUARD + seed % 61;

	if (sends) {
		finish(ucp_put_nbx(end.ep, end.buf, n, end.remote + at, end.rkey, &plain), "put");
		flush();
	}
	meet();
	if (sends)
		return;
	for (size_t i = 0; i < WINDOW; i++)
		if (end.window[i] && (i < at || i >= at + n))
			die("a put beyond its range", UCS_ERR_OUT_OF_RANGE);
	memcpy(end.buf, end.window + at, n);
}

static void get(bool reads, size_t n, unsigned int seed)
{
	ucp_request_param_t plain = { 0 };
	size_t at = GUARD + seed % 61;

	if (!reads)
		fill(end.window + at, n, seed);
	meet();
	if (reads)
		finish(ucp_get_nbx(end.ep, end.buf, n, end.remote + at, end.rkey, &plain), "get");
	meet();
}

/* Adds, with and without the value before. */
static void atomics(bool adds)
{
	enum { TIMES = 20 };
	uint64_t one = 1, was = 0, *word = (uint64_t *)(void *)(end.window + WORD);
	ucp_request_param_t add = { .op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE,
				    .datatype = ucp_dt_make_contig(sizeof(one)) },
			    fetch = add;

	fetch.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
	fetch.reply_buffer = &was;
	*word = 0;
	meet();
	for (unsigned int i = 0; adds && i < TIMES; i++) {
		finish(ucp_atomic_op_nbx(end.ep, UCP_ATOMIC_OP_ADD, &one, 1, end.remote + WORD,
					 end.rkey, i % 2 ? &fetch : &add),
		       "atomic");
		flush();
		if (i % 2 && was != i)
			die("the value before an atomic", UCS_ERR_INVALID_PARAM);
	}
	meet();
	if (!adds && *(volatile uint64_t *)word != TIMES)
		die("the sum of atomics", UCS_ERR_INVALID_PARAM);
	meet();
}

static const struct {
	const char *name;
	void (*fn)(bool first, size_t n, unsigned int seed);
	bool pulls; /* the first side is the one that gets the bytes */
} ways[] = {
	{ "tagged message", by_tag, false },
	{ "stream", by_stream, false },
	{ "active message", by_active_message, false },
	{ "put", put, false },
	{ "get", get, true },
};

static void transfer(unsigned int way, bool first, size_t n)
{
	unsigned int seed = ++end.transfers;
	bool gets = first == ways[way].pulls;

	if (gets)
		memset(end.buf, 0, n);
	else
		fill(end.buf, n, seed);
	if (gets)
		memset(end.window, 0, WINDOW);
	meet();
	ways[way].fn(first, n, seed);
	if (gets)
		compare(end.buf, n, seed, ways[way].name);
	meet();
}

/* Swaps @mine with what the peer gives; the caller frees it. */
static void *swap(const void *mine, size_t n, size_t *got)
{
	uint64_t len = n;
	void *theirs;

	if (send(end.fd, &len, sizeof(len), 0) != sizeof(len) ||
	    send(end.fd, mine, n, 0) != (ssize_t)n ||
	    recv(end.fd, &len, sizeof(len), MSG_WAITALL) != sizeof(len))
		exit(1);
	theirs = malloc(len);
	if (!theirs || recv(end.fd, theirs, len, MSG_WAITALL) != (ssize_t)len)
		exit(1);
	*got = len;
	return theirs;
}

static void begin(void)
{
	ucp_params_t params = { .field_mask = UCP_PARAM_FIELD_FEATURES,
				.features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM |
					    UCP_FEATURE_RMA | UCP_FEATURE_AMO64 };
	ucp_worker_params_t worker = { .field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
				       .thread_mode = UCS_THREAD_MODE_SINGLE };
	ucp_am_handler_param_t handler = { .field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
							 UCP_AM_HANDLER_PARAM_FIELD_CB,
					   .id = AM_ID,
					   .cb = on_message };
	ucp_ep_params_t ep = { .field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS };
	ucp_address_t *address;
	ucp_config_t *config;
	size_t n;

	must(ucp_config_read(NULL, NULL, &config), "ucp_config_read");
	must(ucp_init(&params, config, &end.context), "ucp_init");
	ucp_config_release(config);
	must(ucp_worker_create(end.context, &worker, &end.worker), "ucp_worker_create");
	must(ucp_worker_set_am_recv_handler(end.worker, &handler), "handler");
	must(ucp_worker_get_address(end.worker, &address, &n), "address");
	ep.address = swap(address, n, &n);
	ucp_worker_release_address(end.worker, address);
	must(ucp_ep_create(end.worker, &ep, &end.ep), "ucp_ep_create");
	free((void *)(uintptr_t)ep.address);
}

static ucp_mem_h share_window(void)
{
	ucp_mem_map_params_t map = { .field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
						   UCP_MEM_MAP_PARAM_FIELD_LENGTH,
				     .length = WINDOW };
	uint64_t *remote, mine;
	void *packed, *theirs;
	ucp_mem_h mem;
	size_t n;

	end.buf = malloc(MOST);
	end.window = aligned_alloc(4096, WINDOW);
	if (!end.buf || !end.window)
		exit(1);
	memset(end.window, 0, WINDOW);
	map.address = end.window;
	mine = (uintptr_t)end.window;
	must(ucp_mem_map(end.context, &map, &mem), "ucp_mem_map");
	must(ucp_rkey_pack(end.context, mem, &packed, &n), "ucp_rkey_pack");
	theirs = swap(packed, n, &n);
	ucp_rkey_buffer_release(packed);
	must(ucp_ep_rkey_unpack(end.ep, theirs, &end.rkey), "ucp_ep_rkey_unpack");
	free(theirs);
	remote = swap(&mine, sizeof(mine), &n);
	end.remote = *remote;
	free(remote);
	return mem;
}

static void all(unsigned int rounds)
{
	for (unsigned int round = 0; round < rounds; round++)
		for (unsigned int way = 0; way < sizeof(ways) / sizeof(ways[0]); way++)
			for (unsigned int i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
				for (int first = 0; first < 2; first++)
					transfer(way, first == end.me, lengths[i]);
	atomics(end.me == 0);
	atomics(end.me == 1);
}

static void stop(ucp_mem_h mem)
{
	ucp_request_param_t plain = { 0 };

	flush();
	meet();
	ucp_rkey_destroy(end.rkey);
	finish(ucp_ep_close_nbx(end.ep, &plain), "close");
	meet();
	must(ucp_mem_unmap(end.context, mem), "ucp_mem_unmap");
	ucp_worker_destroy(end.worker);
	ucp_cleanup(end.context);
	free(end.buf);
	free(end.window);
}

int main(int argc, char **argv)
{
	unsigned int rounds = argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 1;
	int fd[2], status = 0;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fd))
		return 1;
	child = fork();
	if (child < 0)
		return 1;
	end.me = !child;
	end.fd = fd[end.me];
	close(fd[!end.me]);
	begin();
	ucp_mem_h mem = share_window();
	all(rounds);
	stop(mem);
	if (!child)
		return 0;
	if (waitpid(child, &status, 0) != child || status)
		return 1;
	printf("ucp_bytes: %u transfers each way, all right\n", end.transfers / 2);
	return 0;
}
