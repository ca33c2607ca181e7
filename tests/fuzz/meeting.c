// SPDX-License-Identifier: MIT
/* The meeting of an XRC domain, and a member that hands anything to a process that comes: no
 * descriptor, several, of memory that is none, an empty message, an end without a word. What counts
 * as the domain's memory is mapped; nothing else is kept. The input: what each of its members does.
 * poll() is where the process that comes waits, so the member acts there. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "fuzz.h"
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "peers/meeting.h"
#include "util/fork.h"
#include "util/guard.h"
#include "util/sealed.h"
#include "xrc/xrc_page.h"

enum { MEMBERS = 3, FDS = 6, MOST = 5, MANY = 128 };

const struct fuzz_target fuzz_target = { "meeting", 64, 600 };

static struct host *host;
static int listening[MEMBERS], fds[FDS];
static struct fuzz_bytes *script; /* NULL: nobody comes */

static void start(void)
{
	const struct host_config cfg = { .n_keys = 1, .key_bytes = 64 };
	char name[32];
	void *map;

	setenv("SOFTHCA_LOG", "error", 0);
	must(!fork_init() && !guard_init() && !host_create(&cfg, &host));
	must(!sealed_make("xrc", xrc_page_bytes(), SEALED_SPARSE, &fds[0], &map));
	must(!sealed_make("short", 4096, SEALED_SPARSE, &fds[1], &map));
	fds[2] = memfd_create("unsealed", MFD_CLOEXEC);
	must(!ftruncate(fds[2], (off_t)xrc_page_bytes()));
	fds[3] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[4] = eventfd(0, EFD_CLOEXEC);
	fds[5] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	for (int i = 0; i < MEMBERS; i++) {
		snprintf(name, sizeof(name), "fuzz.%d", i * 400);
		must(!host_name_bind_any(host->uid, name, &listening[i]));
		must(!listen(listening[i], 8));
		fcntl(listening[i], F_SETFL, O_NONBLOCK);
	}
}

/* One message: how many bytes, and which descriptors. */
static void hand(int conn, struct fuzz_bytes *b)
{
	uint8_t how = (uint8_t)fuzz_take(b, 1);
	uint32_t which = (uint32_t)fuzz_take(b, 2);
	char control[CMSG_SPACE(sizeof(int) * MOST)] = { 0 }, bytes[4] = "";
	struct iovec iov = { bytes, how >> 4 & 3 };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	unsigned int n = how % (MOST + 1);
	struct cmsghdr *c;
	int sent[MOST];

	if (how & 0x80)
		return; /* leaves without a word */
	for (unsigned int i = 0; i < n; i++)
		sent[i] = fds[(which >> 3 * i & 7) % FDS];
	if (n) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(c), sent, sizeof(int) * n);
	}
	sendmsg(conn, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

/* In place of the C library's: a member acts, and there is something to read, or an end. */
int poll(struct pollfd *p, nfds_t n, int timeout)
{
	struct timespec wait = { timeout / 1000, timeout % 1000 * 1000000L };

	for (int i = 0; script && i < MEMBERS; i++) {
		int conn = accept(listening[i], NULL, NULL);

		if (conn < 0)
			continue;
		hand(conn, script);
		close(conn);
	}
	return (int)syscall(SYS_ppoll, p, n, &wait, NULL, 0);
}

/* What a build with FORTIFY calls in its place. */
int __poll_chk(struct pollfd *p, nfds_t n, int timeout, size_t size)
{
	(void)size;
	return poll(p, n, timeout);
}

static unsigned int descriptors(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < MANY; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void come(void)
{
	struct meeting *m;
	struct meeting_other who;
	void *page;
	int fd;

	if (meeting_enter(host, "fuzz", &m, &fd, &who))
		return;
	if (fd >= 0 && !sealed_map(fd, xrc_page_bytes(), true, &page)) {
		*(volatile uint8_t *)page = 1;
		must(((volatile uint8_t *)page)[xrc_page_bytes() - 1] == 0);
		sealed_unmap(page, xrc_page_bytes());
	}
	if (fd >= 0)
		close(fd);
	meeting_leave(m);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	unsigned int before;

	if (!host)
		start();
	before = descriptors();
	script = &b;
	come();
	script = NULL;
	must(descriptors() == before);
	return 0;
}
