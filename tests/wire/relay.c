// SPDX-License-Identifier: MIT
/* Between two hosts: passes the frames of two interfaces on to each other, and treats RoCEv2
 * packets as a bad network would. Runs until its input ends, then says what it did.
 *
 *	relay [loss=P] [dup=P] [reorder=P] [corrupt=P] [ce=P] [seed=N] ONE OTHER
 *
 * P: percent of the packets. Everything but UDP 4791 passes unharmed. */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <net/if.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include "util/rand.h"

enum {
	ROCE_PORT = 4791,
	FRAME_MAX = 1 << 17,
	VNET = sizeof(struct virtio_net_hdr),
	HELD_MAX = 64,
	PASS_BY = 8, /* frames that overtake one that is held … */
	HOLD_MS = 2, /* … or as long as this */
	ROUTED_BYTE = 4, /* of the BTH: what routers change is not summed */
	BUFFER = 8 << 20,
};

struct held {
	uint8_t *bytes;
	size_t len;
	int to;
	unsigned int wait;
};

static struct {
	double loss, dup, reorder, corrupt, ce;
	uint64_t seed;
} set;

static struct {
	uint64_t packets, lost, doubled, reordered, damaged, marked, refused;
} done;

static struct rand dice;
static struct held held[HELD_MAX];
static unsigned int n_held;

static bool chance(double percent)
{
	return percent > 0 && rand_chance(&dice, percent / 100);
}

static bool option(const char *text)
{
	const struct {
		const char *name;
		double *to;
	} known[] = { { "loss", &set.loss },
		      { "dup", &set.dup },
		      { "reorder", &set.reorder },
		      { "corrupt", &set.corrupt },
		      { "ce", &set.ce } };

	if (sscanf(text, "seed=%lu", &set.seed) == 1)
		return true;
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		size_t n = strlen(known[i].name);

		if (!strncmp(text, known[i].name, n) && text[n] == '=') {
			*known[i].to = atof(text + n + 1);
			return true;
		}
	}
	return false;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static int open_on(const char *name)
{
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL) };
	struct packet_mreq all = { .mr_type = PACKET_MR_PROMISC };
	int s = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int one = 1, size = BUFFER;

	at.sll_ifindex = all.mr_ifindex = (int)if_nametoindex(name);
	if (s < 0 || !at.sll_ifindex ||
	    setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
	    setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
	    setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)))
		fail(name);
	setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size));
	setsockopt(s, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size));
	if (bind(s, (struct sockaddr *)&at, sizeof(at)))
		fail(name);
	return s;
}

/* Where the UDP header of a RoCEv2 packet begins in the Ethernet frame; 0: it is none. */
static size_t roce_udp(const uint8_t *eth, size_t len)
{
	uint16_t type = (uint16_t)(eth[12] << 8 | eth[13]);
	size_t at = 0;

	if (len > ETH_HLEN + 40 && type == ETH_P_IP && eth[ETH_HLEN + 9] == IPPROTO_UDP)
		at = ETH_HLEN + (eth[ETH_HLEN] & 0xfU) * 4;
	else if (len > ETH_HLEN + 40 && type == ETH_P_IPV6 && eth[ETH_HLEN + 6] == IPPROTO_UDP)
		at = ETH_HLEN + 40;
	if (!at || at + 24 > len || (eth[at + 2] << 8 | eth[at + 3]) != ROCE_PORT)
		return 0;
	return at;
}

static void damage(uint8_t *bth, size_t len)
{
	unsigned int flips = 1 + (unsigned int)rand_below(&dice, 3);

	while (flips--) {
		uint64_t bit = rand_below(&dice, len * 8);

		if (bit / 8 != ROUTED_BYTE)
			bth[bit / 8] ^= (uint8_t)(1U << bit % 8);
	}
	done.damaged++;
}

/* Congestion experienced; the IPv4 checksum follows. */
static void mark(uint8_t *ip)
{
	uint32_t sum = 0;

	done.marked++;
	if (ip[0] >> 4 == 6) {
		ip[1] |= 0x30;
		return;
	}
	ip[1] |= 3;
	ip[10] = ip[11] = 0;
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(ip[i] << 8 | ip[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

static void put(int to, const uint8_t *bytes, size_t len)
{
	struct pollfd room = { .fd = to, .events = POLLOUT };

	while (send(to, bytes, len, 0) < 0)
		if (poll(&room, 1, 1) <= 0) {
			done.refused++;
			return;
		}
}

static void hold(int to, const uint8_t *bytes, size_t len)
{
	uint8_t *copy = malloc(len);

	if (!copy || n_held == HELD_MAX) {
		free(copy);
		put(to, bytes, len);
		return;
	}
	memcpy(copy, bytes, len);
	held[n_held++] =
		(struct held){ copy, len, to, 1 + (unsigned int)rand_below(&dice, PASS_BY) };
	done.reordered++;
}

/* One more frame has passed; @all: time has. */
static void let_go(bool all)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n_held; i++) {
		struct held *h = &held[i];

		if (!all && --h->wait) {
			held[kept++] = *h;
			continue;
		}
		put(h->to, h->bytes, h->len);
		free(h->bytes);
	}
	n_held = kept;
}

static void treat(int to, uint8_t *bytes, size_t len, size_t udp)
{
	uint8_t *eth = bytes + VNET;

	done.packets++;
	if (chance(set.loss)) {
		done.lost++;
		return;
	}
	if (chance(set.corrupt))
		damage(eth + udp + 8, len - VNET - udp - 8);
	if (chance(set.ce))
		mark(eth + ETH_HLEN);
	if (chance(set.dup)) {
		done.doubled++;
		put(to, bytes, len);
	}
	if (chance(set.reorder))
		hold(to, bytes, len);
	else
		put(to, bytes, len);
	let_go(false);
}

static void pass(int from, int to)
{
	static uint8_t bytes[VNET + FRAME_MAX];
	ssize_t n;

	while ((n = recv(from, bytes, sizeof(bytes), 0)) > VNET + ETH_HLEN) {
		size_t udp = roce_udp(bytes + VNET, (size_t)n - VNET);

		if (udp)
			treat(to, bytes, (size_t)n, udp);
		else
			put(to, bytes, (size_t)n);
	}
}

int main(int argc, char **argv)
{
	struct pollfd fd[3] = { { .fd = 0, .events = POLLIN } };
	int at = 1;

	set.seed = (uint64_t)time(NULL) ^ (uint64_t)getpid() << 20;
	while (at < argc && option(argv[at]))
		at++;
	if (argc - at != 2) {
		fprintf(stderr, "usage: relay [loss=P] … [seed=N] ONE OTHER\n");
		return 2;
	}
	rand_init(&dice, set.seed);
	for (int i = 0; i < 2; i++)
		fd[1 + i] = (struct pollfd){ .fd = open_on(argv[at + i]), .events = POLLIN };
	printf("relay: seed=%lu\n", set.seed);
	fflush(stdout);
	while (!fd[0].revents) {
		if (poll(fd, 3, n_held ? HOLD_MS : -1) <= 0)
			let_go(true);
		pass(fd[1].fd, fd[2].fd);
		pass(fd[2].fd, fd[1].fd);
	}
	printf("relay: seed=%lu: %lu packets, %lu lost, %lu doubled, %lu reordered, %lu damaged, "
	       "%lu marked, %lu refused\n",
	       set.seed, done.packets, done.lost, done.doubled, done.reordered, done.damaged,
	       done.marked, done.refused);
	return 0;
}
