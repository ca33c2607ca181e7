// SPDX-License-Identifier: MIT
/* Scan, watch and routing against the kernel, in a network namespace of the test's own. */
#include <sched.h>
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

/* Adds an IPv6 address and waits until it is announced. */
static void add_ipv6(struct gid_table *t, int fd, const char *text)
{
	union ibv_gid gid = netns_gid(text);
	unsigned int index;

	netns_add("t0", text);
	while (gid_table_find(t, &gid, GID_V2, &index))
		next_sync(t, fd);
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
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	netns_up("t0", false);
	check_eq(gid_table_sync(t) & (GID_PORT_ERR | GID_PORT_ACTIVE), GID_PORT_ERR);
	netns_up("t0", true);
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
	/* the kernel routes to a new IPv6 address from a work queue of its own */
	for (int i = 0; i < 1000000 && !is_local(t, "2001:db8::1"); i++)
		sched_yield();
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

/* The kernel reports a new pair's carrier from a worker: nothing of it shall come later. */
static void wait_for_carrier(void)
{
	struct gid_table *t;
	bool running = false;
	int fd;

	check_eq(gid_table_create("t0", &t), 0);
	check_eq(gid_table_watch(t, &fd), 0);
	while (!running) {
		struct netdev_scan s;

		check_eq(netdev_scan_proc(&s), 0);
		running = netdev_by_name(&s, "t0")->carrier && netdev_by_name(&s, "t1")->carrier;
		netdev_scan_free(&s);
		if (!running)
			next_sync(t, fd);
	}
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

	netns_enter();
	netns_up("lo", true);
	netns_veth("t0", "t1");
	netns_up("t0", true);
	netns_up("t1", true);
	netns_default_route("t0");
	wait_for_carrier();
	return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
