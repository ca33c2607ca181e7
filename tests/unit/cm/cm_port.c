// SPDX-License-Identifier: MIT
/* Ephemeral ports: no two ids have the same both ends, until all ports are in use. */
#include "cm/cm_port.h"
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "cm/cm_addr.h"
#include "cm/cm_watch.h"
#include "test.h"
#include "util/fork.h"

enum { BLOCK = 64, FEW = 150, PORTS = 65536 };

static struct cm_id *ids; /* PORTS + 1 */
static int asked; /* of them have */
static bool used[PORTS];

static void begin(void)
{
	struct rlimit files;

	check_eq(fork_init(), 0);
	check_eq(getrlimit(RLIMIT_NOFILE, &files), 0);
	files.rlim_cur = files.rlim_max; /* a block of ports is a descriptor */
	check_eq(setrlimit(RLIMIT_NOFILE, &files), 0);
	cm_clear();
	memset(used, 0, sizeof(used));
	ids = calloc(PORTS + 1, sizeof(*ids));
	check(ids);
	asked = 0;
}

static void put_address(struct sockaddr_storage *a, const char *address, uint16_t port)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)a;
	uint16_t before = cm_addr_port(a);

	v4->sin_family = AF_INET;
	check_eq(inet_pton(AF_INET, address, &v4->sin_addr), 1);
	cm_addr_set_port(a, port ? port : before);
}

static int resolve(struct cm_id *id, const char *to, uint16_t port)
{
	asked = id - ids < asked ? asked : (int)(id - ids) + 1;
	id->ps = id->ps ? id->ps : RDMA_PS_TCP;
	put_address(&id->src, "10.9.0.1", 0);
	put_address(&id->dst, to, port);
	return cm_port_resolve(id);
}

static unsigned int blocks(void)
{
	struct list *pos;
	unsigned int n = 0;

	list_for_each(pos, &cm.blocks) n++;
	return n;
}

static void check_new(const struct cm_id *id)
{
	uint16_t port = cm_addr_port(&id->src);

	check(port);
	check(!used[port]);
	used[port] = true;
}

static void end(void)
{
	struct list *pos, *tmp;

	for (int i = 0; i < asked; i++)
		cm_port_free(&ids[i]);
	free(ids);
	list_for_each_safe(pos, tmp, &cm.blocks)
	{
		struct cm_block *b = container_of(pos, struct cm_block, node);

		list_del(&b->node);
		close(b->fd);
		free(b);
	}
	check_eq(cm.pairs.count, 0);
	hash_fini(&cm.pairs);
}

TEST(ids_with_one_destination_have_different_ports)
{
	begin();
	for (int i = 0; i < FEW; i++) {
		check_eq(resolve(&ids[i], "10.9.0.2", 7471), 0);
		check_new(&ids[i]);
	}
	check_eq(blocks(), (FEW + BLOCK - 1) / BLOCK);
	end();
}

/* Another address, another port, another port space: a block has room for each. */
TEST(ids_with_different_destinations_share_ports)
{
	begin();
	for (int i = 0; i < BLOCK; i++)
		check_eq(resolve(&ids[i], "10.9.0.2", 7471), 0);
	for (int i = BLOCK; i < 2 * BLOCK; i++)
		check_eq(resolve(&ids[i], "10.9.0.2", 7472), 0);
	for (int i = 2 * BLOCK; i < 3 * BLOCK; i++)
		check_eq(resolve(&ids[i], "10.9.0.3", 7471), 0);
	check_eq(blocks(), 1);
	ids[3 * BLOCK].ps = RDMA_PS_UDP;
	check_eq(resolve(&ids[3 * BLOCK], "10.9.0.2", 7471), 0);
	check_eq(blocks(), 2);
	end();
}

TEST(a_port_is_free_with_its_id)
{
	uint16_t port;

	begin();
	for (int i = 0; i < BLOCK; i++)
		check_eq(resolve(&ids[i], "10.9.0.2", 7471), 0);
	port = cm_addr_port(&ids[7].src);
	cm_port_free(&ids[7]);
	check_eq(resolve(&ids[BLOCK], "10.9.0.2", 7471), 0);
	check_eq(cm_addr_port(&ids[BLOCK].src), port);
	check_eq(blocks(), 1);
	end();
}

/* Only the newest block is kept without an id. */
TEST(blocks_are_given_back)
{
	begin();
	for (int i = 0; i < FEW; i++)
		check_eq(resolve(&ids[i], "10.9.0.2", 7471), 0);
	for (int i = 0; i < FEW; i++)
		cm_port_free(&ids[i]);
	check_eq(blocks(), 1);
	for (int i = 0; i < BLOCK; i++)
		check_eq(resolve(&ids[i], "10.9.0.2", 7471), 0);
	check_eq(blocks(), 1);
	end();
}

/* An id that asks for another destination keeps its port, unless that is in use there. */
TEST(an_id_that_asks_again)
{
	uint16_t port;

	begin();
	check_eq(resolve(&ids[0], "10.9.0.2", 7471), 0);
	port = cm_addr_port(&ids[0].src);
	check_eq(resolve(&ids[0], "10.9.0.2", 7472), 0);
	check_eq(cm_addr_port(&ids[0].src), port);
	check_eq(cm.pairs.count, 1);
	for (int i = 1; i <= BLOCK; i++)
		check_eq(resolve(&ids[i], "10.9.0.3", 7471), 0);
	check_eq(blocks(), 1);
	check_eq(resolve(&ids[0], "10.9.0.3", 7471), 0);
	for (int i = 0; i <= BLOCK; i++)
		check_new(&ids[i]);
	check_eq(blocks(), 2);
	check_eq(cm.pairs.count, BLOCK + 1);
	end();
}

/* What the program has bound it keeps; an id that is free to choose avoids it. */
TEST(a_bound_port_stays)
{
	begin();
	check_eq(resolve(&ids[0], "10.9.0.2", 7472), 0);
	cm_addr_set_port(&ids[1].src, cm_addr_port(&ids[0].src) + 1);
	check_eq(resolve(&ids[1], "10.9.0.2", 7471), 0);
	cm_addr_set_port(&ids[2].src, cm_addr_port(&ids[1].src));
	check_eq(resolve(&ids[2], "10.9.0.2", 7471), 0);
	check_eq(cm_addr_port(&ids[2].src), cm_addr_port(&ids[1].src));
	check_new(&ids[1]);
	for (int i = 3; i < 3 + BLOCK; i++) {
		check_eq(resolve(&ids[i], "10.9.0.2", 7471), 0);
		check_new(&ids[i]);
	}
	end();
}

static void range(int *low, int *high)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");

	check(f);
	check_eq(fscanf(f, "%d %d", low, high), 2);
	fclose(f);
}

/* Ports to listen at are taken from there first (tests/verbs/cm_ports.c). */
TEST(the_last_quarter_of_the_range_is_leased_last)
{
	int low, high, n, last, first;

	range(&low, &high);
	n = (high - low + 1) / BLOCK;
	first = n - n / 4;
	last = low + first * BLOCK;
	begin();
	for (int i = 0; i < n * BLOCK; i++) {
		check_eq(resolve(&ids[i], "10.9.0.2", 7471), 0);
		check_eq(cm_addr_port(&ids[i].src) < last, i < first * BLOCK);
	}
	end();
}

TEST(the_range_ends)
{
	int low, high, n;

	range(&low, &high);
	begin();
	n = (high - low + 1) / BLOCK * BLOCK;
	check(n > 0);
	for (int i = 0; i < n; i++) {
		check_eq(resolve(&ids[i], "10.9.0.2", 7471), 0);
		check_new(&ids[i]);
		check(cm_addr_port(&ids[i].src) >= low && cm_addr_port(&ids[i].src) <= high);
	}
	check_eq(resolve(&ids[n], "10.9.0.2", 7471), EADDRNOTAVAIL);
	check_eq(cm_addr_port(&ids[n].src), 0);
	check_eq(resolve(&ids[n], "10.9.0.2", 7472), 0);
	check_eq(blocks(), n / BLOCK);
	end();
}

RUN_TESTS(unit_test(ids_with_one_destination_have_different_ports),
	  unit_test(ids_with_different_destinations_share_ports),
	  unit_test(a_port_is_free_with_its_id), unit_test(blocks_are_given_back),
	  unit_test(an_id_that_asks_again), unit_test(a_bound_port_stays),
	  unit_test(the_last_quarter_of_the_range_is_leased_last), unit_test(the_range_ends))
