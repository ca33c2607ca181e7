// SPDX-License-Identifier: MIT
/* A peer with a file whose file system is a process of its own, which never answers (FUSE): who
 * reads a page of it, or closes a descriptor of it, waits until that process ends, and no signal
 * helps. In a user namespace of its own every process can make one. The station meets such a peer,
 * and has not waited when the file system is still there.
 *
 * And a peer with a page of userfaultfd for which nobody answers: a process like the station, so
 * the station may look into it. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "peers/contact_talk.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "station.h"
#include "userfault.h"
#include "util/sealed.h"

enum {
	CANNOT = 70, /* exit status: no user namespace, no /dev/fuse or no userfaultfd here */
	PATIENCE_S = 20, /* who has waited so long is let go, and has failed */
	FILE_LEN = 1 << 16,
};

static char place[256]; /* of the file */

/* --- the file system: one file, which is opened, and no more --- */

static size_t answer(const struct fuse_in_header *in, void *out)
{
	struct fuse_init_out *init = out;
	struct fuse_attr_out *attr = out;
	struct fuse_open_out *opened = out;

	switch (in->opcode) {
	case FUSE_INIT:
		*init = (struct fuse_init_out){ .major = 7, .minor = 31, .max_write = 4096 };
		return sizeof(*init);
	case FUSE_GETATTR:
		*attr = (struct fuse_attr_out){ .attr_valid = 1000,
						.attr = { .ino = 1,
							  .mode = S_IFREG | 0666,
							  .nlink = 1,
							  .uid = geteuid(),
							  .gid = getegid(),
							  .size = FILE_LEN } };
		return sizeof(*attr);
	case FUSE_OPEN:
		*opened = (struct fuse_open_out){ .fh = 1 };
		return sizeof(*opened);
	default:
		return 0;
	}
}

static bool heeded(uint32_t op)
{
	return op == FUSE_INIT || op == FUSE_GETATTR || op == FUSE_OPEN;
}

static void serve(int dev)
{
	static char in[1 << 17];
	struct {
		struct fuse_out_header h;
		char body[256];
	} out;

	while (read(dev, in, sizeof(in)) > 0) {
		const struct fuse_in_header *h = (const void *)in;

		if (!heeded(h->opcode) && h->opcode != FUSE_GETXATTR)
			continue;
		out.h = (struct fuse_out_header){ .unique = h->unique };
		if (heeded(h->opcode))
			out.h.len = (uint32_t)answer(h, out.body);
		else
			out.h.error = -ENOSYS;
		out.h.len += (uint32_t)sizeof(out.h);
		if (write(dev, &out, out.h.len) < 0)
			_exit(1);
	}
}

/* With every user of the one that we are; the process that serves ends when we do. */
static int file_system(int talk, void *arg)
{
	(void)talk;
	alarm(PATIENCE_S); /* kills, and whoever waits goes on */
	serve(*(int *)arg);
	return 0;
}

static bool write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return ok;
}

static bool mounts(int *dev)
{
	uid_t uid = geteuid();
	gid_t gid = getegid();
	char text[128];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		return false;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned int)uid, (unsigned int)uid);
	if (!write_file("/proc/self/uid_map", text) || !write_file("/proc/self/setgroups", "deny"))
		return false;
	snprintf(text, sizeof(text), "%u %u 1", (unsigned int)gid, (unsigned int)gid);
	if (!write_file("/proc/self/gid_map", text))
		return false;
	*dev = open("/dev/fuse", O_RDWR | O_CLOEXEC); /* it belongs to the namespace */
	if (*dev < 0)
		return false;
	snprintf(text, sizeof(text), "fd=%d,rootmode=100666,user_id=%u,group_id=%u", *dev,
		 (unsigned int)uid, (unsigned int)gid);
	return !mount("softhca", place, "fuse", MS_NOSUID | MS_NODEV, text);
}

/* --- the peer --- */

static struct contact_message hello(unsigned int slot, uint64_t cookie_addr, uint64_t secret_addr)
{
	return (struct contact_message){ .kind = CONTACT_HELLO,
					 .slot = slot,
					 .cookie = 1,
					 .cookie_addr = cookie_addr,
					 .gen = 1,
					 .n_keys = STATION_KEYS,
					 .key_bytes = STATION_KEYS * sizeof(struct station_key),
					 .ring_size = RING_MIN,
					 .offers = 1,
					 .secret_addr = secret_addr,
					 .nonce = 1 };
}

/* Waits for the connection's end, or for one message; in both cases its HELLO was read. */
static bool heard(int conn)
{
	struct pollfd p = { .fd = conn, .events = POLLIN };

	return poll(&p, 1, -1) == 1;
}

/* Page, ring and so on are that file. */
static void sends_the_file(int conn, unsigned int slot, int file)
{
	const int fds[] = { file, file, file, file };
	struct contact_message m = hello(slot, 1, 1);

	if (contact_talk_send(conn, &m, fds, 4) || !heard(conn))
		_exit(2);
}

/* READY comes behind WELCOME, and is acted upon. */
static void presents(int conn, struct contact_message m)
{
	struct host_layout l;
	void *map;
	int fds[4];

	host_layout(STATION_KEYS, STATION_KEYS * sizeof(struct station_key), &l);
	if (sealed_make("page", HOST_PAGE_BYTES, SEALED_SPARSE, &fds[0], &map) ||
	    sealed_make("ring", RING_CTL + RING_MIN, SEALED_SPARSE, &fds[1], &map) ||
	    sealed_make("mail", HOST_MAIL_BYTES, SEALED_SPARSE, &fds[2], &map) ||
	    sealed_make("tables", l.bytes, SEALED_SPARSE, &fds[3], &map) ||
	    contact_talk_send(conn, &m, fds, 4) || !heard(conn))
		_exit(4);
	m.kind = CONTACT_READY;
	if (contact_talk_send(conn, &m, NULL, 0))
		_exit(5);
}

/* Its cookie lies in a page of the file. */
static void shows_a_page(int conn, unsigned int slot, int file)
{
	void *map = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
	struct stat st; /* asked for once, it tells the kernel how long the file is */

	if (map == MAP_FAILED || fstat(file, &st))
		_exit(3);
	presents(conn, hello(slot, (uintptr_t)map, (uintptr_t)map));
}

struct attack {
	int (*peer)(int talk, void *arg); /* the process, which has this struct as @arg */
	void (*f)(int conn, unsigned int slot, int file);
	bool shows_cookie; /* of the page for which nobody answers: else the secret lies there */
	unsigned int slot, mine; /* the station's; from which on it takes one that is free */
};

/* A slot that is free: by chance the honest one has the first. */
static int take_slot(const struct attack *a, unsigned int *mine)
{
	int name, err;

	for (*mine = a->mine; (err = host_name_bind(*mine, &name)) == EADDRINUSE;)
		*mine = (*mine + 1) % NUMBER_SLOTS;
	return err;
}

/* 0: the file system was there to the end. It outlives this process, else the kernel would close
 * the file for us, and wait. */
static int peer(int talk, void *arg)
{
	const struct attack *a = arg;
	int dev, file, conn, err;
	unsigned int mine;
	struct child fs;

	if (!mounts(&dev)) {
		child_tell(talk, CANNOT);
		return 0;
	}
	fs = child_start(file_system, &dev);
	close(dev);
	file = open(place, O_RDONLY | O_CLOEXEC); /* for others: its owner is not mapped yet */
	err = take_slot(a, &mine);
	if (err || file < 0 || host_name_connect(a->slot, &conn))
		return 1;
	a->f(conn, mine, file);
	child_tell(talk, 1);
	child_hear(talk); /* the station has gone on, sooner or later */
	kill(fs.pid, SIGUSR1);
	return child_wait(&fs) == 128 + SIGUSR1 ? 0 : 6;
}

/* --- the peer with a page of userfaultfd --- */

/* NULL: the kernel does not let this process have one. Its descriptor stays open, unread. */
static void *unanswered_page(void)
{
	void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct uffdio_register r = { .range = { (uintptr_t)page, 4096 },
				     .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = userfault_open();

	if (fd < 0 || page == MAP_FAILED || ioctl(fd, UFFDIO_REGISTER, &r))
		return NULL;
	return page;
}

/* 0: it was there to the end. A station that waits goes on when this process ends. */
static int faulting_peer(int talk, void *arg)
{
	static uint64_t cookie = 1;
	const struct attack *a = arg;
	uint64_t page = (uintptr_t)unanswered_page();
	unsigned int mine;
	int conn, err;

	if (!page) {
		child_tell(talk, CANNOT);
		return 0;
	}
	alarm(PATIENCE_S);
	err = take_slot(a, &mine);
	if (err || host_name_connect(a->slot, &conn))
		return 1;
	presents(conn, hello(mine, a->shows_cookie ? page : (uintptr_t)&cookie, page));
	child_tell(talk, 1);
	child_hear(talk);
	return 0;
}

/* A process that is all right gets a contact behind the other one. */
static int honest(int talk, void *arg)
{
	struct station st = { 0 };
	struct seg s = { .op = 4, .pkey = 0xffff, .npsn = 1 };
	struct dest *d;

	(void)arg;
	station_open(&st);
	d = station_dest(&st, (uint32_t)child_hear(talk));
	s.sqpn = station_number(&st);
	return station_send(&st, d, &s);
}

static void meets(struct attack a)
{
	const char *folder = getenv("TMPDIR");
	struct station st = { 0 };
	struct child c, good;
	struct pollfd p;

	snprintf(place, sizeof(place), "%s/stuck-XXXXXX", folder ? folder : "/tmp");
	close(mkstemp(place));
	station_open(&st);
	a.slot = st.slot;
	a.mine = (st.slot + NUMBER_SLOTS / 2) % NUMBER_SLOTS;
	good = child_start(honest, NULL);
	c = child_start(a.peer, &a);
	for (p = (struct pollfd){ .fd = c.talk, .events = POLLIN }; poll(&p, 1, 0) == 0;)
		station_turn(&st);
	if (child_hear(c.talk) == CANNOT) {
		check_eq(child_wait(&c), 0);
		kill(good.pid, SIGKILL);
		child_wait(&good);
		station_close(&st);
		unlink(place);
		skip();
	}
	child_tell(good.talk, station_number(&st));
	station_until(&st, &st.count, 1);
	check_eq(child_wait(&good), 0);
	child_tell(c.talk, 1);
	check_eq(child_wait(&c), 0);
	station_close(&st);
	unlink(place);
}

TEST(a_descriptor_that_does_not_close_keeps_nobody)
{
	meets((struct attack){ .peer = peer, .f = sends_the_file });
}

TEST(memory_that_does_not_answer_keeps_nobody)
{
	meets((struct attack){ .peer = peer, .f = shows_a_page });
}

TEST(a_cookie_in_a_page_of_userfaultfd_keeps_nobody)
{
	meets((struct attack){ .peer = faulting_peer, .shows_cookie = true });
}

TEST(a_secret_in_a_page_of_userfaultfd_keeps_nobody)
{
	meets((struct attack){ .peer = faulting_peer });
}

RUN_TESTS(unit_test(a_descriptor_that_does_not_close_keeps_nobody),
	  unit_test(memory_that_does_not_answer_keeps_nobody),
	  unit_test(a_cookie_in_a_page_of_userfaultfd_keeps_nobody),
	  unit_test(a_secret_in_a_page_of_userfaultfd_keeps_nobody))
