// SPDX-License-Identifier: MIT
/* What depends on no state of a connection: who may have a port beside whom, and arguments that
 * are wrong in themselves. */
#include "contract.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>

static void answer(const char *what, int ret)
{
	printf("rules %s: %s\n", what, ret ? errno_name(errno) : "0");
}

/* --- two ids on one port --- */

struct place {
	const char *name;
	bool v6, any;
};

static const struct place places[] = {
	{ "own", false, false },
	{ "any", false, true },
	{ "own6", true, false },
	{ "any6", true, true },
};

static union address place(const struct place *p, in_port_t port)
{
	union address a = own_address(p->v6, port);

	if (p->any && p->v6)
		a.in6.sin6_addr = in6addr_any;
	else if (p->any)
		a.in.sin_addr.s_addr = 0;
	return a;
}

static int bind_at(struct rdma_cm_id *id, const struct place *p, in_port_t port, int options)
{
	union address a = place(p, port);
	int on = 1;

	if (options & 1)
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
	if (options & 2)
		rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
	errno = 0;
	return rdma_bind_addr(id, &a.sa);
}

static const char *word(int ret)
{
	return ret ? errno_name(errno) : "0";
}

/* The second id binds, then both listen. */
static void beside(struct rdma_event_channel *ch, const struct place *a, const struct place *b,
		   int options, enum rdma_port_space other)
{
	static const char *const said[] = { "", " reusing", " of their family", " both" };
	struct rdma_cm_id *first, *second;

	must(!rdma_create_id(ch, &first, NULL, RDMA_PS_TCP), "rdma_create_id");
	must(!rdma_create_id(ch, &second, NULL, other), "rdma_create_id");
	must(!bind_at(first, a, 0, options), "rdma_bind_addr");
	printf("rules %s beside %s%s%s:", b->name, a->name, said[options],
	       other == RDMA_PS_TCP ? "" : " in another space");
	printf(" bind %s", word(bind_at(second, b, rdma_get_src_port(first), options)));
	printf(" listen %s", word(rdma_listen(first, 1)));
	if (rdma_get_src_port(second))
		printf(" %s", word(rdma_listen(second, 1)));
	putchar('\n');
	rdma_destroy_id(first);
	rdma_destroy_id(second);
}

static void ports(struct rdma_event_channel *ch)
{
	for (size_t a = 0; a < 4; a++)
		for (size_t b = 0; b < 4; b++)
			for (int options = 0; options < 4; options++)
				beside(ch, &places[a], &places[b], options, RDMA_PS_TCP);
	beside(ch, &places[0], &places[0], 0, RDMA_PS_UDP);
	beside(ch, &places[0], &places[0], 0, RDMA_PS_IB);
}

/* --- arguments --- */

static void creations(struct rdma_event_channel *ch)
{
	static const struct {
		const char *name;
		int ps;
	} spaces[] = { { "TCP", RDMA_PS_TCP },
		       { "UDP", RDMA_PS_UDP },
		       { "IB", RDMA_PS_IB },
		       { "IPOIB", RDMA_PS_IPOIB },
		       { "0", 0 },
		       { "77", 77 } };
	struct rdma_cm_id *id;

	for (size_t i = 0; i < sizeof(spaces) / sizeof(spaces[0]); i++) {
		char what[64];
		int ret = rdma_create_id(ch, &id, NULL, (enum rdma_port_space)spaces[i].ps);

		snprintf(what, sizeof(what), "create_id in space %s", spaces[i].name);
		answer(what, ret);
		if (!ret)
			rdma_destroy_id(id);
	}
	answer("get_cm_event NULL", rdma_get_cm_event(ch, NULL));
	answer("ack_cm_event NULL", rdma_ack_cm_event(NULL));
}

static void addresses(struct rdma_event_channel *ch)
{
	union address a = own_address(false, 0), v6 = own_address(true, 0);
	struct rdma_cm_id *id;

	must(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	a.sa.sa_family = AF_UNIX;
	answer("bind of a local socket's address", rdma_bind_addr(id, &a.sa));
	answer("resolve_addr of a local socket's address", rdma_resolve_addr(id, NULL, &a.sa, 9));
	a.sa.sa_family = AF_UNSPEC;
	answer("bind of no address", rdma_bind_addr(id, &a.sa));
	inet_pton(AF_INET6, "fe80::5", &v6.in6.sin6_addr);
	answer("bind of a link's address without its link", rdma_bind_addr(id, &v6.sa));
	inet_pton(AF_INET6, "ff0e::77", &v6.in6.sin6_addr);
	answer("bind of a group's address", rdma_bind_addr(id, &v6.sa));
	answer("listen without limit", rdma_listen(id, 0));
	printf("rules src port: %s\n", rdma_get_src_port(id) ? "some" : "0");
	printf("rules dst port: %s\n", rdma_get_dst_port(id) ? "some" : "0");
	rdma_destroy_id(id);
}

static void options(struct rdma_event_channel *ch)
{
	static const struct {
		int level, name;
		size_t len;
	} all[] = {
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 4 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 0 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 8 },
		{ RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 4 },
		{ RDMA_OPTION_ID, 77, 4 },
		{ RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 0 },
		{ RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 7 },
		{ RDMA_OPTION_IB, 77, 4 },
		{ 77, 0, 4 },
	};
	char value[64] = { 1 }, what[64];
	struct rdma_cm_id *id;

	must(!rdma_create_id(ch, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		snprintf(what, sizeof(what), "option %d of level %d with %zu bytes", all[i].name,
			 all[i].level, all[i].len);
		answer(what, rdma_set_option(id, all[i].level, all[i].name, value, all[i].len));
	}
	value[0] = 32;
	answer("option ACK_TIMEOUT too large",
	       rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, value, 1));
	rdma_destroy_id(id);
}

/* Nobody listens. */
static void nobody(struct rdma_event_channel *ch, const struct kind *k)
{
	struct crew c = { .kind = k, .active = ch, .tells = true, .out = stdout };
	union address a = own_address(false, htons(9));
	struct rdma_conn_param p;

	must(!rdma_create_id(ch, &c.id[ACTIVE], NULL, k->ps), "rdma_create_id");
	must(!rdma_resolve_addr(c.id[ACTIVE], NULL, &a.sa, 2000), "rdma_resolve_addr");
	printf("rules nobody listens, %s:", k->name);
	take_event(&c, ch);
	must(!rdma_resolve_route(c.id[ACTIVE], 2000), "rdma_resolve_route");
	take_event(&c, ch);
	p = usual_param(&c, c.id[ACTIVE]);
	must(!rdma_connect(c.id[ACTIVE], &p), "rdma_connect");
	take_event(&c, ch);
	putchar('\n');
	rdma_destroy_id(c.id[ACTIVE]);
}

void say_rules(void)
{
	static const struct kind tcp = { .name = "TCP", .ps = RDMA_PS_TCP, .type = IBV_QPT_RC };
	static const struct kind udp = { .name = "UDP", .ps = RDMA_PS_UDP, .type = IBV_QPT_UD };
	struct rdma_event_channel *ch = make_channel();

	ports(ch);
	creations(ch);
	addresses(ch);
	options(ch);
	nobody(ch, &tcp);
	nobody(ch, &udp);
	rdma_destroy_event_channel(ch);
}
