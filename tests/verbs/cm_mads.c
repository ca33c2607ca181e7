// SPDX-License-Identifier: MIT
/* Messages of connection management between processes of a host, which no network carries: they are
 * in the trace, under the faults of SOFTHCA_FAULT, and the side that refuses one says why. */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "verbs/cases.h"
#include "verbs/said.h"

enum { TIME = 15000, ROUNDS = 20, LATE_MS = 20, KILLED = 28, NOBODY = 8 };

static struct rdma_event_channel *channel;
static struct rdma_cm_id *server;
static char trace[512];

static void begin(int backlog)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	said_begin();
	channel = rdma_create_event_channel();
	want(channel);
	want_eq(rdma_create_id(channel, &server, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_bind_addr(server, (struct sockaddr *)&at), 0);
	if (backlog)
		want_eq(rdma_listen(server, backlog), 0);
}

static unsigned int port(void)
{
	return ntohs(rdma_get_src_port(server));
}

/* The next event of @ch, which is such; its id. */
static struct rdma_cm_id *next(struct rdma_event_channel *ch, enum rdma_cm_event_type type,
			       int status)
{
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	want_eq(rdma_get_cm_event(ch, &event), 0);
	want_eq(event->event, type);
	want_eq(event->status, status);
	id = event->id;
	want_eq(rdma_ack_cm_event(event), 0);
	return id;
}

/* No queue pair is needed. */
static struct rdma_cm_id *asks(struct rdma_event_channel *ch, unsigned int to_port)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons((uint16_t)to_port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct rdma_conn_param param = { .qp_num = 77 };
	struct rdma_cm_id *id;

	want_eq(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), 0);
	want_eq(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, TIME), 0);
	next(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	want_eq(rdma_resolve_route(id, TIME), 0);
	next(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	want_eq(rdma_connect(id, &param), 0);
	return id;
}

/* One connection of this process with itself, from REQ to DREP. */
static void round_trip(void)
{
	struct rdma_conn_param param = { .qp_num = 78 };
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *client, *request;

	want(ch);
	client = asks(ch, port());
	request = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	want_eq(rdma_accept(request, &param), 0);
	next(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	want_eq(rdma_establish(client), 0);
	next(channel, RDMA_CM_EVENT_ESTABLISHED, 0);
	want_eq(rdma_disconnect(client), 0);
	next(channel, RDMA_CM_EVENT_DISCONNECTED, 0);
	want_eq(rdma_disconnect(request), 0);
	next(ch, RDMA_CM_EVENT_DISCONNECTED, 0);
	want_eq(rdma_destroy_id(client), 0);
	want_eq(rdma_destroy_id(request), 0);
	rdma_destroy_event_channel(ch);
}

static void end(void)
{
	want_eq(rdma_destroy_id(server), 0);
	rdma_destroy_event_channel(channel);
}

/* --- the trace --- */

static void trace_to_file(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(trace, sizeof(trace), "%s/mads-%d", tmp ? tmp : "/tmp", getpid());
	unlink(trace);
	setenv("SOFTHCA_TRACE", trace, 1);
}

/* How often @what is in the comments of packets. */
static unsigned int traced(const char *what)
{
	FILE *f = fopen(trace, "re");
	unsigned int times = 0;
	char *text = NULL, *at;
	size_t n = 0;
	ssize_t len;

	want(f);
	while ((len = getdelim(&text, &n, 0, f)) > 0)
		for (at = text;
		     at && (at = memmem(at, (size_t)(text + len - at), what, strlen(what))); at++)
			times++;
	free(text);
	fclose(f);
	return times;
}

/* Each that leaves, and each that comes: one that is answered late leaves again. @lost: of those
 * that left. */
static void each_is_traced(const char *sent, const char *came, unsigned int lost)
{
	unsigned int left = traced(sent), arrived = traced(came);

	want(arrived >= 1);
	want(left >= arrived + lost);
}

static void each_message_is_in_the_trace(int arg)
{
	static const char *const names[] = { "REQ", "REP", "RTU", "DREQ", "DREP" };
	char sent[64], came[96];

	(void)arg;
	trace_to_file();
	begin(1);
	round_trip();
	end();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(sent, sizeof(sent), "QP 0x1 sends CM %s PSN 0 by host; verdict: sent",
			 names[i]);
		snprintf(came, sizeof(came),
			 "QP 0x1 receives CM %s PSN 0; verdict: handed to connection management",
			 names[i]);
		each_is_traced(sent, came, 0);
	}
	unlink(trace);
}

/* --- faults --- */

static uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static void a_lost_request_leaves_again(int arg)
{
	(void)arg;
	trace_to_file();
	setenv("SOFTHCA_FAULT", "qp=0x1,loss=100%,count=2", 1);
	begin(1);
	round_trip();
	each_is_traced("sends CM REQ", "receives CM REQ", 2);
	end();
	unlink(trace);
}

static void late_messages_are_late(int arg)
{
	uint64_t begun;

	(void)arg;
	setenv("SOFTHCA_FAULT", "delay=20ms", 1);
	begin(1);
	begun = now_ms();
	round_trip();
	want(now_ms() - begun >= 5 * LATE_MS);
	end();
}

/* Messages that are doubled as well as lost: an MRA answers the copy of a REP, and a RTU that is
 * lost then leaves again after a minute, as Linux's. */
static void messages_of_a_bad_host(const char *faults, const char *trace_has)
{
	trace_to_file();
	setenv("SOFTHCA_FAULT", faults, 1);
	begin(1);
	for (int i = 0; i < ROUNDS; i++)
		round_trip();
	end();
	want(traced(trace_has) > ROUNDS);
	unlink(trace);
}

static void lost_messages_leave_again(int arg)
{
	(void)arg;
	messages_of_a_bad_host("qp=0x1,loss=15%,corrupt=5%,seed=5", "sends CM REQ");
}

static void doubled_messages_count_once(int arg)
{
	(void)arg;
	messages_of_a_bad_host("qp=0x1,dup=30%,reorder=20%,seed=5", "receives CM REQ");
}

/* --- reasons --- */

static void wait_for(const char *fmt, unsigned int number)
{
	while (!said_yet(SAID_NEAR, fmt, number))
		sched_yield();
}

static void an_id_that_does_not_listen_refuses(int arg)
{
	struct rdma_event_channel *ch;

	(void)arg;
	begin(0);
	ch = rdma_create_event_channel();
	want(ch);
	asks(ch, port());
	next(ch, RDMA_CM_EVENT_REJECTED, NOBODY);
	said_want(SAID_NEAR,
		  "connection management: a request from 127.0.0.1 to port %u is refused (REJ 8), "
		  "the 1th of this process: no id listens there in that port space; call "
		  "rdma_listen first, or correct the client's port",
		  port());
}

/* Nobody is refused: the second request comes again, and finds room when the first was fetched. */
static void a_full_backlog_is_told(int arg)
{
	struct rdma_cm_id *first, *second;
	struct rdma_event_channel *ch;
	struct pollfd p = { .events = POLLIN };

	(void)arg;
	begin(1);
	ch = rdma_create_event_channel();
	want(ch);
	asks(ch, port());
	asks(ch, port());
	wait_for("connection management: a request from 127.0.0.1 to port %u has to come again, "
		 "the 1th of this process: 1 of 1 that may wait do; fetch events sooner, or give "
		 "rdma_listen a larger backlog",
		 port());
	first = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	second = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	want(first != second);
	p.fd = ch->fd;
	want_eq(poll(&p, 1, 0), 0); /* no REJECTED */
}

static void connect_and_stay(unsigned int to_port)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();

	want(ch);
	asks(ch, to_port);
	next(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	pause();
}

static void a_death_is_told(int arg)
{
	struct rdma_conn_param param = { .qp_num = 78 };
	struct rdma_cm_id *request;
	unsigned int to_port = 0, peer;
	int talk[2];
	pid_t child;

	(void)arg;
	want_eq(pipe(talk), 0);
	child = fork();
	if (!child) {
		want_eq(read(talk[0], &to_port, sizeof(to_port)), sizeof(to_port));
		connect_and_stay(to_port);
	}
	begin(1);
	to_port = port();
	want_eq(write(talk[1], &to_port, sizeof(to_port)), sizeof(to_port));
	request = next(channel, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	peer = ntohs(rdma_get_dst_port(request));
	want_eq(rdma_accept(request, &param), 0);
	want_eq(kill(child, SIGKILL), 0);
	want_eq(waitpid(child, NULL, 0), child);
	next(channel, RDMA_CM_EVENT_REJECTED, KILLED);
	said_want(SAID_NEAR,
		  "connection management: the process at 127.0.0.1, port %u has ended before the "
		  "connection was established; look why it ended",
		  peer);
}

int main(void)
{
	static const struct test_case list[] = {
		CASE(each_message_is_in_the_trace), CASE(a_lost_request_leaves_again),
		CASE(late_messages_are_late),	    CASE(lost_messages_leave_again),
		CASE(doubled_messages_count_once),  CASE(an_id_that_does_not_listen_refuses),
		CASE(a_full_backlog_is_told),	    CASE(a_death_is_told),
	};

	return CASES_RUN(list);
}
