// SPDX-License-Identifier: MIT
/* Connections, one after the other: how long one takes.
 * connects HOW COUNT PORT [SERVER]; the server's side without SERVER. HOW:
 *   tcp      TCP: connect, accept, one byte each way. Prints the mean, us.
 *   cm       rdma_cm: from rdma_connect() to ESTABLISHED, the peer with a queue pair. Prints the
 *            median, us.
 *   idle     COUNT ids on one channel (no peer). Prints the bytes of memory that one takes. */
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static struct sockaddr_in address(const char *host, const char *port)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (host && !inet_aton(host, &at.sin_addr))
		die(host);
	return at;
}

/* --- TCP --- */

static void serve_tcp(int count, struct sockaddr_in at)
{
	int on = 1, l = socket(AF_INET, SOCK_STREAM, 0);
	char c;

	if (l < 0 || setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) ||
	    bind(l, (struct sockaddr *)&at, sizeof(at)) || listen(l, 128))
		die("listen");
	while (count--) {
		int fd = accept(l, NULL, NULL);

		if (fd < 0 || read(fd, &c, 1) != 1 || write(fd, &c, 1) != 1)
			die("accept");
		close(fd);
	}
	close(l);
}

static double connect_tcp(int count, struct sockaddr_in at)
{
	double begin = now_us();

	for (int i = 0; i < count; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		char c = 'x';

		if (fd < 0 || connect(fd, (struct sockaddr *)&at, sizeof(at)) ||
		    write(fd, &c, 1) != 1 || read(fd, &c, 1) != 1)
			die("connect");
		close(fd);
	}
	return (now_us() - begin) / count;
}

/* --- rdma_cm --- */

static void await(struct rdma_event_channel *ch, enum rdma_cm_event_type what,
		  struct rdma_cm_id **id)
{
	struct rdma_cm_event *e;

	if (rdma_get_cm_event(ch, &e))
		die("rdma_get_cm_event");
	if (e->event != what) {
		fprintf(stderr, "%s instead of %s\n", rdma_event_str(e->event),
			rdma_event_str(what));
		exit(1);
	}
	*id = e->id;
	rdma_ack_cm_event(e);
}

static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };

	if (rdma_create_qp(id, NULL, &a))
		die("rdma_create_qp");
}

static void finish(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static void serve_cm(int count, struct sockaddr_in at)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_conn_param p = { .rnr_retry_count = 7 };
	struct rdma_cm_id *l, *id;
	int tcp = socket(AF_INET, SOCK_STREAM, 0); /* says to the one who waits that we listen */

	if (!ch || rdma_create_id(ch, &l, NULL, RDMA_PS_TCP) ||
	    rdma_bind_addr(l, (struct sockaddr *)&at) || rdma_listen(l, 0))
		die("rdma_listen");
	if (tcp < 0 || bind(tcp, (struct sockaddr *)&at, sizeof(at)) || listen(tcp, 1))
		die("listen");
	while (count--) {
		await(ch, RDMA_CM_EVENT_CONNECT_REQUEST, &id);
		make_qp(id);
		if (rdma_accept(id, &p))
			die("rdma_accept");
		await(ch, RDMA_CM_EVENT_ESTABLISHED, &id);
		await(ch, RDMA_CM_EVENT_DISCONNECTED, &id);
		rdma_disconnect(id);
		finish(id);
	}
	rdma_destroy_id(l);
	rdma_destroy_event_channel(ch);
	close(tcp);
}

static double connect_one(struct rdma_event_channel *ch, struct sockaddr_in at)
{
	struct rdma_conn_param p = { .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id;
	double begin;

	if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 2000))
		die("rdma_resolve_addr");
	await(ch, RDMA_CM_EVENT_ADDR_RESOLVED, &id);
	if (rdma_resolve_route(id, 2000))
		die("rdma_resolve_route");
	await(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, &id);
	make_qp(id);
	begin = now_us();
	if (rdma_connect(id, &p))
		die("rdma_connect");
	await(ch, RDMA_CM_EVENT_ESTABLISHED, &id);
	begin = now_us() - begin;
	rdma_disconnect(id);
	await(ch, RDMA_CM_EVENT_DISCONNECTED, &id);
	finish(id);
	return begin;
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double connect_cm(int count, struct sockaddr_in at)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	double *took = calloc((size_t)count, sizeof(*took)), middle;

	if (!ch || !took)
		die("rdma_create_event_channel");
	for (int i = 0; i < count; i++)
		took[i] = connect_one(ch, at);
	qsort(took, (size_t)count, sizeof(*took), ascending);
	middle = took[count / 2];
	free(took);
	rdma_destroy_event_channel(ch);
	return middle;
}

static long resident(void)
{
	long pages = 0;
	FILE *f = fopen("/proc/self/statm", "re");

	if (!f || fscanf(f, "%*d %ld", &pages) != 1) // NOLINT(cert-err34-c)
		die("/proc/self/statm");
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

static double idle(int count)
{
	struct rdma_event_channel *ch = rdma_create_event_channel();
	struct rdma_cm_id *id;
	long before = 0;

	if (!ch)
		die("rdma_create_event_channel");
	for (int i = 0; i <= count; i++) {
		if (rdma_create_id(ch, &id, NULL, RDMA_PS_TCP))
			die("rdma_create_id");
		if (!i)
			before = resident();
	}
	return (double)(resident() - before) / count;
}

int main(int argc, char **argv)
{
	const char *how = argc > 3 ? argv[1] : "";
	int count = argc > 3 ? atoi(argv[2]) : 0;
	struct sockaddr_in at = address(argc > 4 ? argv[4] : NULL, argc > 3 ? argv[3] : "0");
	bool tcp = !strcmp(how, "tcp");

	if (count < 1)
		return 2;
	if (!strcmp(how, "idle"))
		printf("%.0f bytes\n", idle(count));
	else if (argc > 4)
		printf("%.2f us\n", tcp ? connect_tcp(count, at) : connect_cm(count, at));
	else if (tcp)
		serve_tcp(count, at);
	else
		serve_cm(count, at);
	return 0;
}
