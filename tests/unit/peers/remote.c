// SPDX-License-Identifier: MIT
/* Another process' memory: a child that does nothing but what it is told, alive, dead, replaced
 * by exec, not dumpable, and with its pid unknown. */
#include "peers/remote.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test.h"
#include "util/rand.h"

enum { PAGE = 4096, SIZE = 64 * PAGE };
static const uint64_t cookie_value = 0x1234567890abcdef;

/* Private memory at the same address in the child; behind @area is a page that does not exist:
 * of an empty file, since a descriptor of memory passes over mere protection. */
static uint8_t *area;
static uint64_t cookie;

struct peer {
	pid_t pid;
	int sock;
	int mem_fd;
};

static unsigned int reads_by_pid;

/* In the place of the C library's */
ssize_t process_vm_readv(pid_t pid, const struct iovec *to, unsigned long n_to,
			 const struct iovec *from, unsigned long n_from, unsigned long flags)
{
	reads_by_pid++;
	return syscall(SYS_process_vm_readv, pid, to, n_to, from, n_from, flags);
}

static void fd_send(int sock, int fd)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 0;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	*c = (struct cmsghdr){ CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS };
	memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	if (sendmsg(sock, &m, 0) != 1)
		_exit(1);
}

static int fd_receive(int sock)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte;
	struct iovec iov = { &byte, 1 };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = control,
			    .msg_controllen = sizeof(control) };
	int fd;

	check_eq(recvmsg(sock, &m, MSG_CMSG_CLOEXEC), 1);
	check(CMSG_FIRSTHDR(&m) != NULL);
	memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(fd));
	return fd;
}

/* 'x' becomes another program; 's' sends the whole area; end of file ends it. */
static void child_main(int sock, bool dumpable)
{
	int mem = open("/proc/self/mem", O_RDWR | O_CLOEXEC); /* not root: before it is refused */
	char command;

	prctl(PR_SET_DUMPABLE, dumpable);
	cookie = cookie_value;
	memset(area, 0xee, SIZE);
	fd_send(sock, mem);
	while (read(sock, &command, 1) == 1) {
		if (command == 'x') {
			dup2(sock, 0);
			dup2(sock, 1);
			execlp("cat", "cat", (char *)NULL);
		}
		if (command != 's' || write(sock, area, SIZE) != SIZE)
			break;
	}
	_exit(0);
}

static void area_make(void)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS, empty;

	if (area)
		return;
	empty = memfd_create("empty", MFD_CLOEXEC);
	area = mmap(NULL, SIZE + PAGE, PROT_READ | PROT_WRITE, flags, -1, 0);
	check(area != MAP_FAILED && empty >= 0);
	check(mmap(area + SIZE, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty, 0) !=
	      MAP_FAILED);
	close(empty);
}

static struct peer peer_start(bool dumpable)
{
	struct peer p;
	int sv[2];

	area_make();
	check_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
	p.pid = fork();
	if (!p.pid) {
		close(sv[0]);
		child_main(sv[1], dumpable);
	}
	check(p.pid > 0);
	close(sv[1]);
	p.sock = sv[0];
	p.mem_fd = fd_receive(p.sock);
	return p;
}

static void peer_end(struct peer *p)
{
	close(p->sock);
	check_eq(waitpid(p->pid, NULL, 0), p->pid);
}

static struct remote *attach(const struct peer *p, pid_t pid)
{
	struct remote *r = NULL;

	check_eq(remote_open(dup(p->mem_fd), pid, (uintptr_t)&cookie, cookie_value, &r), 0);
	return r;
}

static void peer_dump(struct peer *p, uint8_t *out)
{
	check_eq(write(p->sock, "s", 1), 1);
	for (size_t got = 0; got < SIZE;) {
		ssize_t n = read(p->sock, out + got, SIZE - got);

		check(n > 0);
		got += (size_t)n;
	}
}

/* @src cut into up to 80 pieces, some of them empty */
static unsigned int cut(struct rand *r, uint8_t *src, size_t len, struct iovec out[80])
{
	unsigned int n = 0, most = 1 + (unsigned int)rand_below(r, 79);

	for (size_t at = 0; at < len || !n; n++) {
		size_t run = n == most ? len - at : rand_below(r, len / most * 2 + 2);

		run = run < len - at ? run : len - at;
		out[n] = (struct iovec){ src + at, run };
		at += run;
	}
	return n;
}

static void check_transfers(struct peer *p, pid_t pid, uint64_t seed)
{
	static uint8_t src[SIZE], model[SIZE], found[SIZE];
	struct remote *r = attach(p, pid);
	struct iovec v[81];
	struct rand rnd;

	rand_init(&rnd, seed);
	peer_dump(p, model);
	for (int i = 0; i < 60; i++) {
		size_t len = rand_below(&rnd, i % 2 ? 100 : SIZE / 2);
		size_t at = rand_below(&rnd, SIZE - len);

		for (size_t k = 0; k < len; k++)
			model[at + k] = src[k] = (uint8_t)rand_u64(&rnd);
		check_eq(remote_write(r, v, cut(&rnd, src, len, v), (uintptr_t)area + at), 0);
		memset(found, 1, len + 1);
		check_eq(remote_read(r, v, cut(&rnd, found, len, v), (uintptr_t)area + at), 0);
		check_mem(found, src, len);
		check_eq(found[len], 1);
	}
	peer_dump(p, found);
	check_mem(found, model, SIZE);
	for (int i = 0; i < SIZE; i++)
		check_eq(area[i], 0); /* ours at that address is not theirs */
	remote_close(r);
}

TEST(bytes_arrive_where_they_should_and_nowhere_else)
{
	struct peer p = peer_start(true);

	check_transfers(&p, p.pid, 1);
	check_transfers(&p, 0, 2);
	check_transfers(&p, getpid(), 3); /* a wrong pid is never used */
	peer_end(&p);
	close(p.mem_fd);
}

TEST(process_that_is_not_dumpable_is_reached_by_its_descriptor)
{
	struct peer p = peer_start(false);

	check_transfers(&p, p.pid, 4);
	peer_end(&p);
	close(p.mem_fd);
}

static int both_ways(struct remote *r, uint8_t *local, size_t len, uint8_t *theirs)
{
	struct iovec v = { local, len };
	int err = remote_write(r, &v, 1, (uintptr_t)theirs);

	check_eq(remote_read(r, &v, 1, (uintptr_t)theirs), err);
	return err;
}

/* Such a read waits for a page of userfaultfd, a read by the descriptor fails. */
TEST(nothing_is_read_by_pid_until_a_long_read_is_wanted)
{
	static uint8_t bytes[SIZE];
	struct peer p = peer_start(true);
	struct iovec v = { bytes, 8192 };
	struct remote *r;

	reads_by_pid = 0;
	r = attach(&p, p.pid);
	check_eq(remote_read(r, &v, 1, (uintptr_t)area), 0);
	check_eq(reads_by_pid, 0);
	v.iov_len = SIZE;
	check_eq(remote_read(r, &v, 1, (uintptr_t)area), 0);
	check(reads_by_pid > 1);
	remote_close(r);
	peer_end(&p);
	close(p.mem_fd);
}

TEST(errors_say_which_side_is_missing)
{
	static uint8_t good[SIZE];
	struct peer p = peer_start(true);
	const size_t sizes[] = { 1, 8, 100, 5000, 100000 };
	uint8_t *hole = area + SIZE;

	for (int by_pid = 0; by_pid < 2; by_pid++) {
		struct remote *r = attach(&p, by_pid ? p.pid : 0);

		for (unsigned int i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
			size_t n = sizes[i], half = n / 2;

			check_eq(both_ways(r, good, n, hole), EFAULT);
			check_eq(both_ways(r, good, n, hole - half), EFAULT);
			check_eq(both_ways(r, hole - half, n, area), EINVAL);
			check_eq(both_ways(r, good, n, (uint8_t *)-(uintptr_t)half), EFAULT);
			check_eq(both_ways(r, good, n, hole - n), 0);
		}
		check_eq(both_ways(r, good, 0, hole), 0);
		remote_close(r);
	}
	peer_end(&p);
	close(p.mem_fd);
}

static void check_gone(struct remote *r)
{
	static uint8_t local[100000];

	check(!remote_alive(r));
	check_eq(both_ways(r, local, 8, area), ESRCH);
	check_eq(both_ways(r, local, sizeof(local), area), ESRCH);
}

TEST(dead_process_is_esrch)
{
	struct peer p = peer_start(true);
	struct remote *by_pid = attach(&p, p.pid), *by_fd = attach(&p, 0), *r;

	check(remote_alive(by_pid) && remote_alive(by_fd));
	check_eq(kill(p.pid, SIGSTOP), 0);
	check(remote_alive(by_pid));
	check_eq(kill(p.pid, SIGKILL), 0);
	peer_end(&p);
	check_gone(by_pid);
	check_gone(by_fd);
	check_eq(remote_open(p.mem_fd, 0, (uintptr_t)&cookie, cookie_value, &r), EPERM);
	close(p.mem_fd);
	remote_close(by_pid);
	remote_close(by_fd);
}

TEST(program_that_follows_by_exec_is_not_touched)
{
	struct peer p = peer_start(true);
	struct remote *by_pid = attach(&p, p.pid), *by_fd = attach(&p, 0);
	char byte = 0;

	check_eq(write(p.sock, "x", 1), 1);
	check_eq(write(p.sock, "!", 1), 1);
	check_eq(read(p.sock, &byte, 1), 1); /* the new program is running */
	check_eq(byte, '!');
	check_gone(by_pid);
	check_gone(by_fd);
	peer_end(&p);
	close(p.mem_fd);
	remote_close(by_pid);
	remote_close(by_fd);
}

TEST(what_is_no_process_memory_is_refused)
{
	struct peer p = peer_start(true);
	struct remote *r = NULL;
	int null = open("/dev/null", O_RDWR), fds[2];
	const struct {
		uint64_t addr, value;
	} wrong[] = { { (uintptr_t)&cookie, 1 },
		      { (uintptr_t)(area + SIZE), 0 },
		      { UINT64_MAX - 3, 0 } };

	check_eq(pipe(fds), 0);
	check_eq(remote_open(null, p.pid, (uintptr_t)&cookie, cookie_value, &r), EPERM);
	check_eq(close(null), 0); /* it has stayed ours */
	check_eq(remote_open(fds[0], p.pid, (uintptr_t)&cookie, cookie_value, &r), EPERM);
	check_eq(remote_open(-1, p.pid, (uintptr_t)&cookie, cookie_value, &r), EPERM);
	for (unsigned int i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		check_eq(remote_open(p.mem_fd, p.pid, wrong[i].addr, wrong[i].value, &r), EPERM);
	check(!r);
	close(fds[0]);
	close(fds[1]);
	peer_end(&p);
	close(p.mem_fd);
}

RUN_TESTS(unit_test(bytes_arrive_where_they_should_and_nowhere_else),
	  unit_test(process_that_is_not_dumpable_is_reached_by_its_descriptor),
	  unit_test(nothing_is_read_by_pid_until_a_long_read_is_wanted),
	  unit_test(errors_say_which_side_is_missing), unit_test(dead_process_is_esrch),
	  unit_test(program_that_follows_by_exec_is_not_touched),
	  unit_test(what_is_no_process_memory_is_refused))
