// SPDX-License-Identifier: MIT
/* Groups on the udp link, in a network namespace of the test's own: t0 and t1 are the two ends of a
 * cable; each link below is a process. */
#include <errno.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "net/gid_netns.h"
#include "net/gid.h"
#include "udp/udp.h"
#include "util/fork.h"
#include "util/guard.h"
#include "wire/grh.h"
#include "wire/ip.h"
#include "wire/opcode.h"

enum { BYTES = 100, GROUP_QPN = 0xffffff, US = 7, OTHERS = 8 };

struct process {
	struct udp *u;
	unsigned int n;
	struct seg last;
	uint8_t grh[GRH_LEN];
};

static unsigned int closed_twice;

/* In place of the library's: a number that is closed twice may be another thread's by then. */
int close(int fd)
{
	int ret = (int)syscall(SYS_close, fd);

	closed_twice += ret && errno == EBADF;
	return ret;
}

static const char *const ours[] = { "10.77.0.1", "fd77::1" };
static const char *const groups[] = { "239.9.8.7", "ff05::9:8" };

static void deliver(void *arg, const struct seg *s)
{
	struct process *p = arg;

	p->n++;
	p->last = *s;
	memcpy(p->grh, s->grh, GRH_LEN);
}

static void begin(struct process *p, uint32_t fellows)
{
	const struct udp_config cfg = { deliver, p, fellows };

	*p = (struct process){ 0 };
	check_eq(udp_create(&cfg, &p->u), 0);
}

static void join(struct process *p, int family, const char *dev)
{
	union ibv_gid group = netns_gid(groups[family]);

	check_eq(udp_join(p->u, &group, p, if_nametoindex(dev)), 0);
}

static void part(struct process *p, int family)
{
	union ibv_gid group = netns_gid(groups[family]);

	udp_part(p->u, &group, p);
}

static struct dest *path_by(struct process *p, int family, const char *dev)
{
	struct udp_path to = { .net = { netns_gid(ours[family]), netns_gid(groups[family]) },
			       .ifindex = if_nametoindex(dev),
			       .mtu = 1024 };
	struct dest *d;

	check_eq(udp_dest(p->u, &to, &d), 0);
	return d;
}

static struct dest *path(struct process *p, int family)
{
	return path_by(p, family, "t0");
}

static void send_one(struct dest *d, uint8_t op, uint32_t imm)
{
	static uint8_t bytes[BYTES];
	struct seg s = { .op = op,
			 .flags = SEG_MCAST,
			 .pkey = 0xffff,
			 .dqpn = GROUP_QPN,
			 .sqpn = 5,
			 .qkey = 1,
			 .imm = imm,
			 .data = bytes,
			 .len = BYTES };

	check_eq(dest_send(d, &s, NULL), 0);
}

/* The kernel has delivered what was sent before send() returned, on this host; through the cable a
 * moment later. */
static void drain(struct process *p, unsigned int want)
{
	do
		udp_drain(p->u, 64, true);
	while (still(p->n < want));
}

/* Other users get what we send from this host, once; those who get it by another way do not, nor
 * does the sender, though the kernel gives each of them a copy. */
static void this_host(int family)
{
	struct process sender, fellow, other;
	struct dest *d;
	struct grh g;

	begin(&sender, US);
	begin(&fellow, US);
	begin(&other, OTHERS);
	join(&sender, family, "t0");
	join(&fellow, family, "t0");
	join(&other, family, "t0");
	d = path(&sender, family);
	for (uint32_t i = 1; i <= 3; i++)
		send_one(d, SVC_UD | OP_SEND_ONLY_IMM, i);
	drain(&other, 3);
	check_eq(other.n, 3);
	check_eq(other.last.imm, 3);
	check_eq(other.last.flags, SEG_NET | SEG_MCAST);
	check(other.last.owner == &other);
	check_eq(grh_parse(other.grh, &g), 0);
	check_mem(g.dgid, netns_gid(groups[family]).raw, 16);
	check_mem(g.sgid, netns_gid(ours[family]).raw, 16);
	drain(&sender, 0);
	drain(&fellow, 0);
	check_eq(sender.n + fellow.n, 0);
	d->ops->put(d);
	udp_destroy(sender.u);
	udp_destroy(fellow.u);
	udp_destroy(other.u);
}

TEST(other_users_of_this_host_hear_us_once_ipv4)
{
	this_host(0);
}

TEST(other_users_of_this_host_hear_us_once_ipv6)
{
	this_host(1);
}

/* What comes through a network is nobody's copy, from whatever port. */
TEST(another_host_may_use_the_same_port)
{
	struct process sender, far;
	struct dest *d;

	begin(&sender, US);
	begin(&far, US);
	join(&far, 1, "t1");
	d = path(&sender, 1);
	while (still(!far.n)) { /* the first ones may find the cable without carrier */
		send_one(d, SVC_UD | OP_SEND_ONLY, 0);
		drain(&far, 0);
	}
	check(far.last.owner == &far);
	d->ops->put(d);
	udp_destroy(sender.u);
	udp_destroy(far.u);
}

static void make_cable(void)
{
	netns_veth("t0", "t1");
	netns_up("t0", true);
	netns_up("t1", true);
	for (int i = 0; i < 2; i++)
		netns_add("t0", ours[i]);
}

/* The address is the same, and a sender still uses it. */
static void cable_made_anew(int family)
{
	struct process sender, other;
	struct dest *before, *after;

	begin(&sender, US);
	begin(&other, OTHERS);
	join(&other, family, "t0");
	before = path(&sender, family);
	send_one(before, SVC_UD | OP_SEND_ONLY, 0);
	drain(&other, 1);
	netns_remove("t0");
	make_cable();
	join(&other, family, "t0");
	after = path(&sender, family);
	send_one(after, SVC_UD | OP_SEND_ONLY, 0);
	drain(&other, 2);
	check_eq(other.n, 2);
	before->ops->put(before);
	after->ops->put(after);
	udp_destroy(sender.u);
	udp_destroy(other.u);
}

TEST(a_cable_that_is_made_anew_is_sent_by_ipv4)
{
	cable_made_anew(0);
}

TEST(a_cable_that_is_made_anew_is_sent_by_ipv6)
{
	cable_made_anew(1);
}

/* A datagram leaves by the interface of its path. */
static void two_interfaces(int family)
{
	struct process sender, one, two;
	struct dest *first, *second;

	netns_veth("t2", "t3");
	netns_up("t2", true);
	netns_add("t2", ours[family]);
	begin(&sender, US);
	begin(&one, OTHERS);
	begin(&two, OTHERS);
	join(&one, family, "t0");
	join(&two, family, "t2");
	first = path_by(&sender, family, "t0");
	second = path_by(&sender, family, "t2");
	for (uint32_t i = 1; i <= 2; i++) {
		send_one(first, SVC_UD | OP_SEND_ONLY_IMM, i);
		send_one(second, SVC_UD | OP_SEND_ONLY_IMM, 10 + i);
	}
	drain(&one, 2);
	drain(&two, 2);
	check_eq(one.last.imm, 2);
	check_eq(two.last.imm, 12);
	first->ops->put(first);
	second->ops->put(second);
	udp_destroy(sender.u);
	udp_destroy(one.u);
	udp_destroy(two.u);
	netns_remove("t2");
}

TEST(two_interfaces_with_one_address_are_two_ways_ipv4)
{
	two_interfaces(0);
}

TEST(two_interfaces_with_one_address_are_two_ways_ipv6)
{
	two_interfaces(1);
}

static void join_nowhere(struct process *p, int family)
{
	union ibv_gid group = netns_gid(groups[family]);

	check_eq(udp_join(p->u, &group, p, 0), 0);
}

static bool in_proc(const char *file, const char *what)
{
	FILE *f = fopen(file, "re");
	bool found = false;
	char line[256];

	check(f);
	while (fgets(line, sizeof(line), f))
		found |= strstr(line, what) != NULL;
	fclose(f);
	return found;
}

static bool is_member(int family)
{
	return family ? in_proc("/proc/self/net/igmp6", "ff050000000000000000000000090008")
		      : in_proc("/proc/self/net/igmp", "070809EF");
}

/* One call leaves, however many have joined. An interface that goes and comes is joined anew. */
TEST(the_kernel_knows_as_long_as_somebody_listens)
{
	for (int family = 0; family < 2; family++) {
		struct process p;

		begin(&p, US);
		check(!is_member(family));
		join(&p, family, "t0");
		join(&p, family, "t0");
		check(is_member(family));
		join_nowhere(&p, family);
		check(!is_member(family));
		join(&p, family, "t0");
		check(is_member(family));
		part(&p, family);
		check(!is_member(family));
		udp_destroy(p.u);
	}
}

/* Only datagrams go to a group. */
TEST(a_group_takes_no_other_service)
{
	struct process sender, other;
	struct udp_counts c;
	struct dest *d;

	begin(&sender, US);
	begin(&other, OTHERS);
	join(&other, 0, "t0");
	d = path(&sender, 0);
	send_one(d, SVC_RC | OP_SEND_ONLY, 0);
	send_one(d, SVC_UC | OP_SEND_ONLY, 0);
	send_one(d, SVC_UD | OP_SEND_ONLY_IMM, 3);
	drain(&other, 1);
	check_eq(other.n, 1);
	check_eq(other.last.imm, 3);
	udp_count(other.u, &c);
	check_eq(c.malformed, 2);
	d->ops->put(d);
	udp_destroy(sender.u);
	udp_destroy(other.u);
}

TEST(a_group_that_another_program_holds_is_tried_again)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(UDP_ROCE_PORT) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);
	union ibv_gid group = netns_gid(groups[0]);
	struct process p;

	check_eq(bind(s, (struct sockaddr *)&at, sizeof(at)), 0);
	begin(&p, US);
	check_eq(udp_join(p.u, &group, &p, if_nametoindex("t0")), EADDRINUSE);
	check(!is_member(0));
	close(s);
	join(&p, 0, "t0");
	check(is_member(0));
	udp_destroy(p.u);
}

TEST(an_address_that_the_kernel_lacks_is_refused)
{
	struct udp_path to = { .net = { netns_gid("10.77.0.9"), netns_gid(groups[0]) },
			       .ifindex = if_nametoindex("t0"),
			       .mtu = 1024 };
	struct process p;
	struct dest *d;

	begin(&p, US);
	check_eq(udp_dest(p.u, &to, &d), EADDRNOTAVAIL);
	check_eq(closed_twice, 0);
	udp_destroy(p.u);
}

static int start(void **state)
{
	(void)state;
	netns_enter();
	make_cable();
	return fork_init() || guard_init();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(other_users_of_this_host_hear_us_once_ipv4),
		unit_test(other_users_of_this_host_hear_us_once_ipv6),
		unit_test(another_host_may_use_the_same_port),
		unit_test(a_cable_that_is_made_anew_is_sent_by_ipv4),
		unit_test(a_cable_that_is_made_anew_is_sent_by_ipv6),
		unit_test(two_interfaces_with_one_address_are_two_ways_ipv4),
		unit_test(two_interfaces_with_one_address_are_two_ways_ipv6),
		unit_test(the_kernel_knows_as_long_as_somebody_listens),
		unit_test(a_group_takes_no_other_service),
		unit_test(a_group_that_another_program_holds_is_tried_again),
		unit_test(an_address_that_the_kernel_lacks_is_refused),
	};

	return cmocka_run_group_tests(tests, start, NULL);
}
