// SPDX-License-Identifier: MIT
/* Routes and neighbours as the kernel knows them now, and how many sockets it takes to ask, in a
 * network namespace of the test's own. */
#include <errno.h>
#include <linux/fib_rules.h>
#include <linux/neighbour.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include "gid_netns.h"
#include "net/gid_table.h"
#include "net/neigh.h"

static unsigned int sockets;
static int failing; /* errno that each call brings; 0: none */

/* In place of the C library's, also for libmnl. */
__attribute__((visibility("default"))) int socket(int domain, int type, int protocol)
{
	sockets++;
	if (failing) {
		errno = failing;
		return -1;
	}
	return (int)syscall(SYS_socket, domain, type, protocol);
}

static unsigned int asked(void)
{
	unsigned int n = sockets;

	sockets = 0;
	return n;
}

static void neighbour(const char *text, uint16_t state)
{
	static const uint8_t mac[] = { 2, 0, 0, 0, 0, 9 };
	struct netns_request r;
	struct ndmsg *m = netns_start(&r, RTM_NEWNEIGH, NLM_F_CREATE | NLM_F_REPLACE, sizeof(*m));
	uint8_t addr[4];

	check_eq(inet_pton(AF_INET, text, addr), 1);
	m->ndm_family = AF_INET;
	m->ndm_ifindex = (int)if_nametoindex("t0");
	m->ndm_state = state;
	mnl_attr_put(r.msg, NDA_DST, sizeof(addr), addr);
	mnl_attr_put(r.msg, NDA_LLADDR, sizeof(mac), mac);
	netns_do(&r);
	asked();
}

static struct route_ends ends(const char *from, const char *to)
{
	struct route_ends e = { .to = netns_gid(to), .oif = if_nametoindex("t0") };

	if (from)
		e.from = netns_gid(from);
	return e;
}

static enum route_kind route_to(const char *text, struct rtnl_route *out)
{
	const struct route_ends e = ends(NULL, text);

	return route_ask(&e, out);
}

static bool is_known(const char *text, const struct rtnl_route *route)
{
	const struct route_ends e = ends(NULL, text);

	return neigh_known(&e, route);
}

TEST(one_question_tells_the_way_and_a_second_the_neighbour)
{
	struct rtnl_route route;

	neighbour("10.7.0.2", NUD_PERMANENT);
	asked();
	check_eq(route_to("10.7.0.2", &route), ROUTE_OUT);
	check_eq(asked(), 1);
	check(is_known("10.7.0.2", &route));
	check_eq(asked(), 1);
	check(is_known("10.7.0.2", NULL));
	check_eq(asked(), 2);
	check(!is_known("10.7.0.3", &route));
	check_eq(route_to("10.7.0.3", &route), ROUTE_OUT);
	check(!is_known("10.7.0.3", &route));
}

TEST(interfaces_without_neighbours_know_all)
{
	struct rtnl_route route = { .type = RTN_UNICAST, .oif = if_nametoindex("lo") };

	check(is_known("10.7.0.9", &route));
	route = (struct rtnl_route){ 0 }; /* no route: what is sent says so */
	check(is_known("10.7.0.9", &route));
}

/* `ip rule add from @from table @table` */
static void rule(const char *from, uint8_t table)
{
	struct netns_request r;
	struct fib_rule_hdr *m =
		netns_start(&r, RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, sizeof(*m));
	bool ipv6 = strchr(from, ':');
	uint8_t addr[16];

	check_eq(inet_pton(ipv6 ? AF_INET6 : AF_INET, from, addr), 1);
	m->family = ipv6 ? AF_INET6 : AF_INET;
	m->src_len = ipv6 ? 128 : 32;
	m->table = table;
	m->action = FR_ACT_TO_TBL;
	mnl_attr_put(r.msg, FRA_SRC, m->src_len / 8, addr);
	netns_do(&r);
}

/* `ip route add @to dev t0 table @table` */
static void route_in(const char *to, uint8_t table)
{
	struct netns_request r;
	struct rtmsg *m = netns_start(&r, RTM_NEWROUTE, NLM_F_CREATE, sizeof(*m));
	bool ipv6 = strchr(to, ':');
	uint8_t addr[16];

	check_eq(inet_pton(ipv6 ? AF_INET6 : AF_INET, to, addr), 1);
	m->rtm_family = ipv6 ? AF_INET6 : AF_INET;
	m->rtm_dst_len = ipv6 ? 128 : 32;
	m->rtm_table = table;
	m->rtm_protocol = RTPROT_STATIC;
	m->rtm_scope = ipv6 ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK;
	m->rtm_type = RTN_UNICAST;
	mnl_attr_put(r.msg, RTA_DST, m->rtm_dst_len / 8, addr);
	mnl_attr_put_u32(r.msg, RTA_OIF, if_nametoindex("t0"));
	netns_do(&r);
}

static enum route_kind between(const char *from, const char *to)
{
	const struct route_ends e = ends(from, to);
	struct rtnl_route route;

	return route_ask(&e, &route);
}

static void by_source(const char *ruled, const char *other, const char *far)
{
	struct route_ends e = ends(ruled, far);

	netns_add("t1", ruled);
	netns_add("t1", other);
	rule(ruled, 100);
	route_in(far, 100);
	check_eq(between(ruled, far), ROUTE_OUT);
	check(!neigh_known(&e, NULL));
	check_eq(between(other, far), ROUTE_NONE);
	check_eq(between(NULL, far), ROUTE_NONE);
	e.from = netns_gid(other);
	check(neigh_known(&e, NULL)); /* no route: what is sent says so */
}

/* Hosts with several interfaces have the routes of each in a table of its own. */
TEST(rules_that_ask_for_the_source_decide)
{
	netns_up("t0", false); /* its default route goes */
	netns_up("t0", true);
	by_source("10.9.0.1", "10.9.0.3", "10.9.0.2");
	by_source("fd09::1", "fd09::3", "fd09::2");
	check_eq(between("10.7.0.99", "10.7.0.1"), ROUTE_LOCAL); /* a source that has gone */
}

static enum route_kind of_table_from(struct gid_table *t, const char *from, const char *text)
{
	const struct route_ends e = ends(from, text);

	return gid_table_route(t, &e.from, &e.to);
}

static enum route_kind of_table(struct gid_table *t, const char *text)
{
	return of_table_from(t, NULL, text);
}

TEST(only_an_address_of_this_host_is_remembered)
{
	struct gid_table *t;
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	check_eq(of_table(t, "10.7.0.1"), ROUTE_LOCAL);
	asked();
	check_eq(of_table(t, "10.7.0.1"), ROUTE_LOCAL);
	check_eq(asked(), 0);
	check_eq(of_table_from(t, "10.7.0.1", "10.7.0.1"), ROUTE_LOCAL); /* another way */
	check_eq(asked(), 1);
	check_eq(of_table(t, "10.7.0.2"), ROUTE_OUT);
	check_eq(asked(), 1);
	check_eq(of_table(t, "10.7.0.2"), ROUTE_OUT);
	check_eq(asked(), 1);
	netns_up("t0", false); /* its routes go */
	check_eq(of_table(t, "10.7.0.2"), ROUTE_NONE);
	gid_table_destroy(t);
}

/* A process that lacks a descriptor for a moment does not know that an address is not its own. */
TEST(a_question_that_cannot_be_asked_has_no_answer)
{
	struct rtnl_route route;

	failing = EMFILE;
	check_eq(route_to("10.7.0.1", &route), ROUTE_UNKNOWN);
	check_eq(route_to("10.7.0.2", &route), ROUTE_UNKNOWN);
	failing = 0;
	check_eq(route_to("10.7.0.1", &route), ROUTE_LOCAL);
}

/* Where nobody tells the table of changes it remembers nothing; its descriptor is closed once. */
TEST(a_table_without_its_watch_remembers_nothing)
{
	struct gid_table *t;
	int fd, next;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	gid_table_unwatch(t);
	next = dup(0);
	check_eq(next, fd);
	check_eq(of_table(t, "10.7.0.1"), ROUTE_LOCAL);
	asked();
	check_eq(of_table(t, "10.7.0.1"), ROUTE_LOCAL);
	check_eq(asked(), 1);
	gid_table_destroy(t);
	check_eq(close(next), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(one_question_tells_the_way_and_a_second_the_neighbour),
		unit_test(interfaces_without_neighbours_know_all),
		unit_test(only_an_address_of_this_host_is_remembered),
		unit_test(a_question_that_cannot_be_asked_has_no_answer),
		unit_test(a_table_without_its_watch_remembers_nothing),
		unit_test(rules_that_ask_for_the_source_decide),
	};

	netns_enter();
	netns_up("lo", true);
	netns_veth("t0", "t1");
	netns_up("t0", true);
	netns_up("t1", true);
	netns_add("t0", "10.7.0.1");
	netns_default_route("t0");
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
