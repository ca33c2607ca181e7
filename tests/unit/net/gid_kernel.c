// SPDX-License-Identifier: MIT
/* Scan, watch and routing against the kernel, in a network namespace of the test's own. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <libmnl/libmnl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "gid_netns.h"
#include "net/gid_table.h"

static unsigned int opened,
	refused; /* sockets since the last zero; the one that is refused, or 0 */

/* In place of the library's. */
struct mnl_socket *mnl_socket_open2(int bus, int flags)
{
	(void)flags;
	if (++opened != refused)
		return mnl_socket_open(bus);
	errno = EMFILE;
	return NULL;
}

static bool readable(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

/* The kernel announces IPv6 addresses from a worker, a moment after they were added. */
static unsigned int next_sync(struct gid_table *t, int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	check_eq(poll(&p, 1, 10000), 1);
	return gid_table_sync(t);
}

static void check_gid(struct gid_table *t, unsigned int index, const char *text)
{
	union ibv_gid want = { 0 };
	struct gid_entry e;

	if (text)
		want = netns_gid(text);
	check_eq(gid_table_get(t, index, &e), 0);
	check_mem(&e.gid, &want, sizeof(want));
}

static bool is_local(struct gid_table *t, const char *text)
{
	union ibv_gid gid = netns_gid(text), any = { 0 };

	return gid_table_route(t, &any, &gid) == ROUTE_LOCAL;
}

/* Adds an IPv6 address and waits until the kernel's worker is done with it. The table may find the
 * address at once, by news of another one: what the kernel says of it later would disturb. */
static void add_ipv6(struct gid_table *t, int fd, const char *text)
{
	union ibv_gid gid = netns_gid(text);
	unsigned int index;

	gid_table_sync(t);
	netns_add("t0", text);
	while (gid_table_find(t, &gid, GID_V2, &index))
		next_sync(t, fd);
	while (still(!is_local(t, text))) /* announced, and then routed to */
		;
}

/* --- what the kernel's worker says of a cable --- */

enum { OPER_UP = 6 }; /* IF_OPER_UP; <net/if.h> and <linux/if.h> exclude each other */

struct news {
	struct mnl_socket *nl;
	int dev; /* number of the interface, 0: none yet */
	bool up; /* whether it works, as it was announced last */
};

static void news_open(struct news *n)
{
	*n = (struct news){ .nl = mnl_socket_open(NETLINK_ROUTE) };
	check(n->nl && !mnl_socket_bind(n->nl, RTMGRP_LINK, MNL_SOCKET_AUTOPID));
}

static int take_news(const struct nlmsghdr *msg, void *arg)
{
	const struct ifinfomsg *info = mnl_nlmsg_get_payload(msg);
	struct news *n = arg;
	const struct nlattr *attr;

	mnl_attr_for_each(attr, msg, sizeof(*info))
	{
		if (mnl_attr_get_type(attr) == IFLA_OPERSTATE && info->ifi_index == n->dev)
			n->up = mnl_attr_get_u8(attr) == OPER_UP;
	}
	return MNL_CB_OK;
}

/* A worker announces that t1, the far end of t0, has its cable or not; in the same turn, under the
 * lock that a request takes, it announces t0. Behind this nothing of it comes any more. */
static void news_until(struct news *n, bool up)
{
	char buf[8192];
	ssize_t len;

	n->dev = (int)if_nametoindex("t1");
	for (n->up = !up; n->up != up;) {
		len = mnl_socket_recvfrom(n->nl, buf, sizeof(buf));
		check(len > 0 && mnl_cb_run(buf, (size_t)len, 0, 0, take_news, n) >= 0);
	}
	netns_mtu("t1", 1500); /* as it is: announces nothing itself */
}

TEST(lo_has_its_gids)
{
	struct gid_table *t;

	check_eq(gid_table_create("lo", &t), 0);
	check_gid(t, 0, "fe80::ff:fe00:1");
	check_gid(t, 1, "fe80::ff:fe00:1");
	check_gid(t, 2, "127.0.0.1");
	check_gid(t, 3, "127.0.0.1");
	check_gid(t, 4, "::1");
	check_gid(t, 6, NULL);
	gid_table_destroy(t);
}

TEST(both_ways_to_scan_see_the_same)
{
	struct netdev_scan a, b;
	struct gid_table *t;
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	netns_add("t0", "10.5.0.1");
	netns_add("t0", "10.5.0.2");
	add_ipv6(t, fd, "2001:db8::5");
	check_eq(netdev_scan_rtnl(&a, true), 0);
	check_eq(netdev_scan_proc(&b), 0);
	check_eq(a.devs, 3);
	check_eq(b.devs, a.devs);
	check_eq(b.addrs, a.addrs);
	check_ne(a.default_index, 0);
	check_eq(b.default_index, a.default_index);
	for (unsigned int i = 0; i < a.devs; i++) {
		const struct netdev *dev = netdev_by_name(&b, a.dev[i].name);

		check(dev);
		check_eq(dev->index, a.dev[i].index);
		check_eq(dev->mtu, a.dev[i].mtu);
		check_mem(dev->mac, a.dev[i].mac, sizeof(dev->mac));
		check_eq(dev->up, a.dev[i].up);
		check_eq(dev->carrier, a.dev[i].carrier);
		check_eq(dev->loopback, a.dev[i].loopback);
	}
	for (unsigned int i = 0; i < a.addrs; i++) {
		unsigned int found = 0;

		for (unsigned int j = 0; j < b.addrs; j++)
			found += a.addr[i].index == b.addr[j].index &&
				 !memcmp(&a.addr[i].gid, &b.addr[j].gid, sizeof(a.addr[i].gid));
		check_eq(found, 1);
	}
	check_str(netdev_choose(&a)->name, "t0");
	netdev_scan_free(&a);
	netdev_scan_free(&b);
	netns_del("t0", "10.5.0.1");
	netns_del("t0", "10.5.0.2");
	netns_del("t0", "2001:db8::5");
	gid_table_destroy(t);
}

TEST(watch_follows_addresses_and_says_nothing_else)
{
	struct gid_table *t;
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	netns_add("t0", "10.0.0.1");
	check_eq(gid_table_watch(t, &fd), 0);
	check_gid(t, 3, "10.0.0.1"); /* came between creation and watch */
	check(!readable(fd));
	check_eq(gid_table_sync(t), 0);
	netns_add("t0", "10.0.0.2");
	check(readable(fd));
	check_eq(gid_table_sync(t), GID_CHANGE);
	check(!readable(fd));
	check_gid(t, 5, "10.0.0.2");
	netns_add("t0", "2001:db8::1");
	check_eq(next_sync(t, fd), GID_CHANGE);
	check_gid(t, 7, "2001:db8::1");
	netns_del("t0", "10.0.0.1");
	check_eq(gid_table_sync(t), GID_CHANGE);
	check_gid(t, 3, NULL);
	check_gid(t, 5, "10.0.0.2");
	netns_add("t1", "10.7.0.1"); /* somebody else's */
	check(readable(fd));
	check_eq(gid_table_sync(t), 0);
	netns_del("t1", "10.7.0.1");
	netns_del("t0", "10.0.0.2");
	netns_del("t0", "2001:db8::1");
	check_eq(gid_table_sync(t), GID_CHANGE);
	gid_table_destroy(t);
}

TEST(watch_follows_state_and_mtu)
{
	struct gid_table *t;
	struct netdev dev;
	struct news n;
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	news_open(&n);
	netns_up("t0", false);
	check_eq(gid_table_sync(t) & (GID_PORT_ERR | GID_PORT_ACTIVE), GID_PORT_ERR);
	news_until(&n, false);
	netns_up("t0", true);
	news_until(&n, true);
	mnl_socket_close(n.nl);
	netns_mtu("t0", 9000);
	check_eq(gid_table_sync(t) & GID_MTU, GID_MTU);
	gid_table_netdev(t, &dev);
	check_eq(dev.mtu, 9000);
	check(dev.up);
	netns_mtu("t0", 1500);
	gid_table_destroy(t);
}

TEST(an_overflowing_watch_loses_nothing)
{
	struct gid_table *t;
	char text[32];
	int fd, small = 1;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	check_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	for (int round = 0; round < 2; round++)
		for (int i = 1; i < 50; i++) {
			snprintf(text, sizeof(text), "10.1.0.%d", i);
			netns_addr(round ? RTM_DELADDR : RTM_NEWADDR, "t0", text);
		}
	netns_add("t0", "10.2.0.1");
	check_eq(gid_table_sync(t), GID_CHANGE);
	check_gid(t, 3, "10.2.0.1");
	check_gid(t, 5, NULL);
	netns_del("t0", "10.2.0.1");
	gid_table_destroy(t);
}

/* Interfaces, IPv4 and IPv6 addresses: whichever of the three questions cannot be asked. */
TEST(out_of_descriptors_it_keeps_what_it_knows)
{
	struct gid_table *t;
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	add_ipv6(t, fd, "2001:db8::1");
	for (unsigned int i = 1; i <= 3; i++) {
		netns_add("t0", "10.0.0.1");
		opened = 0;
		refused = i;
		check_eq(next_sync(t, fd), 0);
		check_eq(opened, i);
		check_gid(t, 3, "2001:db8::1");
		refused = 0;
		check_eq(gid_table_sync(t), GID_CHANGE);
		check_gid(t, 5, "10.0.0.1");
		netns_del("t0", "10.0.0.1");
		check_eq(next_sync(t, fd), GID_CHANGE);
	}
	netns_del("t0", "2001:db8::1");
	gid_table_destroy(t);
}

TEST(local_is_what_the_kernel_routes_to_itself)
{
	struct gid_table *t;
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	netns_add("t0", "10.0.0.1");
	netns_add("t1", "10.3.0.1");
	add_ipv6(t, fd, "2001:db8::1");
	for (int again = 0; again < 2; again++) { /* the second time from memory */
		check(is_local(t, "127.0.0.1"));
		check(is_local(t, "127.3.4.5"));
		check(is_local(t, "::1"));
		check(is_local(t, "10.0.0.1"));
		check(is_local(t, "10.3.0.1"));
		check(is_local(t, "2001:db8::1"));
		check(!is_local(t, "10.0.0.9"));
		check(!is_local(t, "2001:db8::9"));
		check(!is_local(t, "fe80::9"));
		check(!is_local(t, "::"));
	}
	netns_add("t0", "10.0.0.9");
	netns_del("t0", "10.0.0.1");
	gid_table_sync(t);
	check(is_local(t, "10.0.0.9"));
	check(!is_local(t, "10.0.0.1"));
	netns_del("t0", "10.0.0.9");
	netns_del("t0", "2001:db8::1");
	netns_del("t1", "10.3.0.1");
	gid_table_destroy(t);
}

TEST(link_local_gids_of_every_own_interface_are_local)
{
	struct gid_table *t, *watched;
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	check(is_local(t, "fe80::ff:feaa:bbcc")); /* of t0, which has no such address */
	check(is_local(t, "fe80::ff:fe00:1")); /* of lo */
	check(!is_local(t, "fe80::ff:feaa:bbcd"));
	check(!is_local(t, "fe80::77"));
	check_eq(gid_table_create("t0", &watched), 0);
	check_eq(gid_table_watch(watched, &fd), 0);
	add_ipv6(watched, fd, "fe80::77");
	check(is_local(t, "fe80::77")); /* @t is not watched: it remembers nothing */
	netns_del("t0", "fe80::77");
	check(!is_local(t, "fe80::77"));
	gid_table_destroy(watched);
	gid_table_destroy(t);
}

/* From now on this process gets no netlink socket, as in some sandboxes. */
static int refuse_netlink(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* In a child: the number of the first thing that is wrong, or 0. */
static int without_netlink(void)
{
	union ibv_gid own = netns_gid("10.0.0.1");
	struct gid_table *t;
	unsigned int index;
	int fd;

	if (refuse_netlink())
		return 1;
	if (gid_table_create("t0", &t))
		return 2;
	if (gid_table_find(t, &own, GID_V2, &index) || index != 3)
		return 3;
	if (gid_table_watch(t, &fd) != EPERM || gid_table_sync(t))
		return 4;
	if (!is_local(t, "10.0.0.1") || !is_local(t, "127.0.0.1") || !is_local(t, "::1"))
		return 5;
	if (is_local(t, "10.0.0.9") || is_local(t, "2001:db8::9"))
		return 6;
	if (!is_local(t, "fe80::ff:feaa:bbcc") || is_local(t, "fe80::9"))
		return 7;
	return 0;
}

TEST(without_netlink_everything_but_the_watch_works)
{
	int status;
	pid_t pid;

	netns_add("t0", "10.0.0.1");
	pid = fork();
	if (!pid)
		_exit(without_netlink());
	check_eq(waitpid(pid, &status, 0), pid);
	netns_del("t0", "10.0.0.1");
	check(WIFEXITED(status));
	check_eq(WEXITSTATUS(status), 0);
}

/* The last one: takes the interface away. */
TEST(a_removed_interface_is_a_port_down)
{
	struct gid_table *t;
	struct netdev dev;
	int fd;

	netns_add("t0", "10.0.0.1");
	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	netns_remove("t0");
	check_eq(gid_table_sync(t), GID_CHANGE | GID_PORT_ERR | GID_GONE);
	check_gid(t, 2, NULL);
	gid_table_netdev(t, &dev);
	check(!netdev_active(&dev));
	gid_table_destroy(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		unit_test(lo_has_its_gids),
		unit_test(both_ways_to_scan_see_the_same),
		unit_test(watch_follows_addresses_and_says_nothing_else),
		unit_test(watch_follows_state_and_mtu),
		unit_test(an_overflowing_watch_loses_nothing),
		unit_test(out_of_descriptors_it_keeps_what_it_knows),
		unit_test(local_is_what_the_kernel_routes_to_itself),
		unit_test(link_local_gids_of_every_own_interface_are_local),
		unit_test(without_netlink_everything_but_the_watch_works),
		unit_test(a_removed_interface_is_a_port_down),
	};
	struct news n;

	netns_enter();
	news_open(&n);
	netns_up("lo", true);
	netns_veth("t0", "t1");
	netns_up("t0", true);
	netns_up("t1", true);
	netns_default_route("t0");
	news_until(&n, true);
	mnl_socket_close(n.nl);
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
