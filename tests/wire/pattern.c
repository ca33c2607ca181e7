// SPDX-License-Identifier: MIT
/* Random work on RC connections between two hosts, every byte checked (rounds.h).
 *
 *	pattern [-p PORT]... [-g GID-INDEX] [-m MTU] [-z LARGEST] [-n ROUNDS] [-o TIMEOUT] [-s SEED]
 *	        [-k] [ADDRESS]
 *
 * Without ADDRESS it is the server of one PORT, which takes the client's terms; the client has a
 * connection to each of its PORTs. -k: on and on, anew where a peer has gone, until standard input
 * ends; the server serves any number of clients. Prints the seed, "begun" for each connection that
 * has done its first round, and at the end what was done. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "util/barrier.h"
#include "verbs/peer.h"
#include "wire/rounds.h"

enum { PORTS = 64, AGAIN_MS = 20 };

static struct {
	const char *port[PORTS], *address;
	unsigned int ports;
	int gid_index;
	bool keep;
	struct terms t;
} args = { .gid_index = 3, .t = { .largest = 1 << 20, .mtu = 1024, .timeout = 14, .rounds = 16 } };

static struct ibv_pd *pd;
static bool stop; /* atomic */
static struct counts sum;

static void open_device(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	if (!pd)
		die("opening the device");
	ibv_free_device_list(list);
}

static int tcp_socket(const char *port, bool listens)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = listens ? AI_PASSIVE : 0,
				  .ai_family = listens ? AF_INET6 : AF_UNSPEC };
	struct addrinfo *at;
	int fd, one = 1, zero = 0, err;

	if (getaddrinfo(args.address, port, &hints, &at))
		fail("%s port %s: no such address", args.address, port);
	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		die("socket");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (listens) {
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
		err = bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, PORTS);
		if (err)
			die("listen");
	} else {
		err = connect(fd, at->ai_addr, at->ai_addrlen);
	}
	freeaddrinfo(at);
	if (!err)
		return fd;
	close(fd);
	return -1;
}

/* One connection from its beginning to its end. False: the peer has gone. */
static bool serve_one(int fd, int side, const struct terms *t)
{
	struct conn *c = conn_make(pd, fd, side, t, args.gid_index);
	bool done = c && conn_run(c, &stop, &sum);

	if (c)
		conn_free(c);
	return done;
}

/* --- the client --- */

static void *client(void *arg)
{
	const char *port = arg;
	struct terms t = args.t;
	bool done = false;

	while (!done && !load_relaxed(&stop)) {
		int fd = tcp_socket(port, false);

		if (fd >= 0 && tcp_put(fd, &t, sizeof(t)))
			done = serve_one(fd, 1, &t);
		else
			close(fd);
		if (!done && !args.keep)
			fail("port %s: the server has gone", port);
		if (!done)
			poll(NULL, 0, AGAIN_MS);
		t.seed += UINT64_C(0x10000000000);
	}
	return NULL;
}

static void wait_for_the_end(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		;
	store_relaxed(&stop, true);
}

static void be_client(void)
{
	pthread_t thread[PORTS];

	for (unsigned int i = 0; i < args.ports; i++)
		if (pthread_create(&thread[i], NULL, client, (void *)args.port[i]))
			die("pthread_create");
	if (args.keep)
		wait_for_the_end();
	for (unsigned int i = 0; i < args.ports; i++)
		pthread_join(thread[i], NULL);
}

/* --- the server --- */

static void *server(void *arg)
{
	int fd = (int)(intptr_t)arg;
	struct terms t;

	if (!tcp_get(fd, &t, sizeof(t)))
		close(fd);
	else if (!serve_one(fd, 0, &t) && !args.keep)
		fail("the client has gone");
	return NULL;
}

static void be_server(void)
{
	struct pollfd p[] = { { .events = POLLIN }, { .fd = STDIN_FILENO, .events = POLLIN } };
	pthread_t thread;
	int fd;

	p[0].fd = tcp_socket(args.port[0], true);
	while (poll(p, args.keep ? 2 : 1, -1) > 0 && !p[1].revents) {
		fd = accept(p[0].fd, NULL, NULL);
		if (fd < 0)
			die("accept");
		if (pthread_create(&thread, NULL, server, (void *)(intptr_t)fd))
			die("pthread_create");
		if (args.keep) {
			pthread_detach(thread);
			continue;
		}
		pthread_join(thread, NULL);
		break;
	}
}

static void parse(int argc, char **argv)
{
	static const char usage[] =
		"usage: pattern [-p PORT]... [-g GID-INDEX] [-m MTU] [-z LARGEST]"
		" [-n ROUNDS] [-o TIMEOUT] [-s SEED] [-k] [ADDRESS]";
	int c;

	args.t.seed = (uint64_t)time(NULL) << 20 ^ (uint64_t)getpid();
	while ((c = getopt(argc, argv, "p:g:m:z:n:o:s:k")) != -1) {
		uint64_t v = optarg ? strtoull(optarg, NULL, 0) : 0;

		if (c == 'p' && args.ports < PORTS)
			args.port[args.ports++] = optarg;
		else if (c == 'g')
			args.gid_index = (int)v;
		else if (c == 'm')
			args.t.mtu = (uint32_t)v;
		else if (c == 'z')
			args.t.largest = (uint32_t)v;
		else if (c == 'n')
			args.t.rounds = (uint32_t)v;
		else if (c == 'o')
			args.t.timeout = (uint32_t)v;
		else if (c == 's')
			args.t.seed = v;
		else if (c == 'k')
			args.keep = true;
		else
			fail("%s", usage);
	}
	if (!args.ports || optind < argc - 1)
		fail("%s", usage);
	args.address = argv[optind];
	if (args.keep)
		args.t.rounds = UINT32_MAX;
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	if (args.address)
		printf("seed %llu\n", (unsigned long long)args.t.seed);
	fflush(stdout);
	open_device();
	if (args.address)
		be_client();
	else
		be_server();
	printf("done: %llu rounds, %llu operations, %llu bytes; %llu peers gone\n",
	       (unsigned long long)load_relaxed(&sum.rounds),
	       (unsigned long long)load_relaxed(&sum.operations),
	       (unsigned long long)load_relaxed(&sum.bytes),
	       (unsigned long long)load_relaxed(&sum.gone));
	return 0;
}
