// SPDX-License-Identifier: MIT
/* One end of a connection of rdma_cm, without queue pairs, which tells each event in a line.
 *
 *	ends listen ADDRESS PORT [asked]
 *	ends connect ADDRESS PORT MS [udp|answered|late]
 *
 * asked: it accepts nobody; answered: it does not establish what was accepted; late: it looks from
 * a handler of exit() whether it is still connected (106) or not (22).
 * "listening" says that a server is ready. MS: time for rdma_resolve_addr(). A call that fails is a
 * line with its errno: "rdma_resolve_addr 101"; an event is its name and status. When standard
 * input ends, it leaves by exit() with all that it has. */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QPN = 0x123456, QKEY = 0x77 };

static struct {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *id;
	struct rdma_conn_param param;
	bool stays; /* asked or answered */
} me = { .param = { .qp_num = QPN, .retry_count = 7, .rnr_retry_count = 7 } };

static void tell(const char *what, int status)
{
	printf("%s %d\n", what, status);
	fflush(stdout);
}

static void must(const char *call, int ret)
{
	if (!ret)
		return;
	tell(call, errno);
	exit(0);
}

static void answer(enum rdma_cm_event_type event, struct rdma_cm_id *id)
{
	switch (event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		must("rdma_resolve_route", rdma_resolve_route(id, 1000));
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		must("rdma_connect", rdma_connect(id, &me.param));
		break;
	case RDMA_CM_EVENT_CONNECT_REQUEST:
		if (!me.stays)
			must("rdma_accept", rdma_accept(id, &me.param));
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (!me.stays)
			must("rdma_establish", rdma_establish(id));
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		must("rdma_disconnect", rdma_disconnect(id));
		break;
	default:
		break;
	}
}

static void one_event(void)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	enum rdma_cm_event_type event;

	must("rdma_get_cm_event", rdma_get_cm_event(me.channel, &e));
	id = e->id;
	event = e->event;
	tell(rdma_event_str(event), e->status);
	must("rdma_ack_cm_event", rdma_ack_cm_event(e));
	answer(event, id);
}

static void address(const char *text, const char *port, struct sockaddr_storage *out)
{
	const struct addrinfo digits = { .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
	struct addrinfo *a;

	errno = EINVAL;
	must("getaddrinfo", getaddrinfo(text, port, &digits, &a));
	memcpy(out, a->ai_addr, a->ai_addrlen);
	freeaddrinfo(a);
}

static void look(void)
{
	tell("rdma_notify", rdma_notify(me.id, IBV_EVENT_COMM_EST) ? errno : 0);
}

int main(int argc, char **argv)
{
	bool listens = argc > 3 && !strcmp(argv[1], "listen");
	const char *more = argc > 5 - listens ? argv[5 - listens] : "";
	bool udp = !strcmp(more, "udp");
	struct sockaddr_storage to;

	if (argc < 4 + !listens)
		return 2;
	me.stays = !strcmp(more, "asked") || !strcmp(more, "answered");
	if (!strcmp(more, "late"))
		must("atexit", atexit(look));
	address(argv[2], argv[3], &to);
	me.channel = rdma_create_event_channel();
	must("rdma_create_event_channel", me.channel ? 0 : -1);
	must("rdma_create_id",
	     rdma_create_id(me.channel, &me.id, NULL, udp ? RDMA_PS_UDP : RDMA_PS_TCP));
	if (listens) {
		must("rdma_bind_addr", rdma_bind_addr(me.id, (struct sockaddr *)&to));
		must("rdma_listen", rdma_listen(me.id, 0));
		tell("listening", 0);
	} else {
		must("rdma_resolve_addr",
		     rdma_resolve_addr(me.id, NULL, (struct sockaddr *)&to, atoi(argv[4])));
	}
	for (;;) {
		struct pollfd fds[] = { { me.channel->fd, POLLIN, 0 },
					{ STDIN_FILENO, POLLIN, 0 } };

		if (poll(fds, 2, -1) < 0)
			return 1;
		if (fds[0].revents)
			one_event();
		else if (fds[1].revents)
			exit(0);
	}
}
