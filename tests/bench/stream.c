// SPDX-License-Identifier: MIT
/* The least that a reliable stream of RoCEv2 packets costs on sockets: trains of 4 KiB packets by
 * UDP_SEGMENT, a CRC of each packet at both ends, one copy at the receiver (the kernel's), and a
 * word back for each train, without which the receiver's buffer overflows. No headers, no queues.
 *
 *	stream OWN-ADDRESS PORT            receives until it has been quiet
 *	stream OWN-ADDRESS PORT TO SECONDS sends; prints Gb/s
 */
#include <arpa/inet.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include "util/crc.h"

enum { PAYLOAD = 4096, PACKET = PAYLOAD + 4, TRAIN = 15, AHEAD = 3, PATIENCE_US = 100000 };

static uint8_t bytes[1 << 16];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct sockaddr_in address(const char *ip, const char *port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port)) };

	if (inet_pton(AF_INET, ip, &a.sin_addr) != 1)
		fail(ip);
	return a;
}

static int socket_at(const struct sockaddr_in *at)
{
	const struct timeval patience = { .tv_usec = PATIENCE_US };
	int s = socket(AF_INET, SOCK_DGRAM, 0), on = 1;

	if (s < 0 || bind(s, (const struct sockaddr *)at, sizeof(*at)) ||
	    setsockopt(s, SOL_UDP, UDP_GRO, &on, sizeof(on)) ||
	    setsockopt(s, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		fail("socket");
	return s;
}

static uint32_t sum_of(const uint8_t *packet)
{
	return crc_update(0, packet, PAYLOAD);
}

static void receive(int s)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	unsigned int quiet = 0;
	uint32_t sum;
	ssize_t n;

	while (quiet < 10) {
		n = recvfrom(s, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &len);
		if (n < 0) {
			quiet += ntohs(from.sin_port) > 0;
			continue;
		}
		quiet = 0;
		for (ssize_t at = 0; at + PACKET <= n; at += PACKET) {
			memcpy(&sum, bytes + at + PAYLOAD, sizeof(sum));
			if (sum != sum_of(bytes + at)) {
				fprintf(stderr, "damaged\n");
				exit(1);
			}
		}
		sendto(s, &n, sizeof(n), 0, (struct sockaddr *)&from, len);
	}
}

static void send_train(int s, const struct sockaddr_in *to)
{
	uint64_t control[CMSG_SPACE(sizeof(uint16_t)) / sizeof(uint64_t)] = { 0 };
	struct sockaddr_in name = *to;
	struct iovec v = { bytes, TRAIN * PACKET };
	struct msghdr m = { .msg_name = &name,
			    .msg_namelen = sizeof(name),
			    .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);
	const uint16_t size = PACKET;

	c->cmsg_level = SOL_UDP;
	c->cmsg_type = UDP_SEGMENT;
	c->cmsg_len = CMSG_LEN(sizeof(size));
	memcpy(CMSG_DATA(c), &size, sizeof(size));
	for (size_t at = 0; at < v.iov_len; at += PACKET) {
		uint32_t sum = sum_of(bytes + at);

		memcpy(bytes + at + PAYLOAD, &sum, sizeof(sum));
	}
	if (sendmsg(s, &m, 0) < 0)
		fail("sendmsg");
}

static void stream(int s, const struct sockaddr_in *to, double seconds)
{
	double start = now(), end = start + seconds, last = start;
	uint64_t arrived = 0, out = 0;
	ssize_t got;

	while (last < end) {
		for (; out < AHEAD; out++)
			send_train(s, to);
		if (recv(s, &got, sizeof(got), 0) == sizeof(got)) {
			arrived += (uint64_t)got / PACKET * PAYLOAD;
			out--;
		} else {
			out = 0; /* lost */
		}
		last = now();
	}
	printf("%.2f Gb/s\n", (double)arrived * 8e-9 / (last - start));
}

int main(int argc, char **argv)
{
	struct sockaddr_in own, to;
	int s;

	if (argc != 3 && argc != 5) {
		fprintf(stderr, "usage: stream OWN PORT [TO SECONDS]\n");
		return 2;
	}
	own = address(argv[1], argc == 3 ? argv[2] : "0");
	s = socket_at(&own);
	if (argc == 3) {
		receive(s);
		return 0;
	}
	to = address(argv[3], argv[2]);
	stream(s, &to, atof(argv[4]));
	return 0;
}
