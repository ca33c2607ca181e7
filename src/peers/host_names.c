// SPDX-License-Identifier: MIT
#include "peers/host_names.h"
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "net/unix_listeners.h"
#include "peers/host_page.h"
#include "util/barrier.h"
#include "util/uncancelled.h"

enum { BACKLOG = 1024, NAME_ROOM = sizeof(((struct sockaddr_un *)0)->sun_path) };

/* Read once, since it is asked for with each contact; the usual one while it cannot be read. */
static uint32_t overflow_uid(void)
{
	static uint64_t known; /* atomic; 1 more than it, 0: not read yet */
	unsigned int uid = 65534;
	FILE *f;

	if (load_relaxed(&known))
		return (uint32_t)(load_relaxed(&known) - 1);
	f = fopen("/proc/sys/kernel/overflowuid", "re");
	if (f && fscanf(f, "%u", &uid) == 1)
		store_relaxed(&known, UINT64_C(1) + uid);
	if (f)
		fclose(f);
	return uid;
}

/* Our uid as the namespace around this one has it. */
static int outer(uint32_t uid, uint32_t *out)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned int in, to, n;
	int err = ENOENT;

	if (!f)
		return ENOSYS;
	while (err && fscanf(f, "%u %u %u", &in, &to, &n) == 3) {
		if (uid - in >= n)
			continue;
		*out = to + (uid - in);
		err = 0;
	}
	fclose(f);
	return err;
}

/* Users without a number here: all have the numbers but -1, which is none. */
static bool maps_everybody(void)
{
	FILE *f = fopen("/proc/self/uid_map", "re");
	unsigned int in, to, n;
	uint64_t users = 0;

	if (!f)
		return false;
	while (fscanf(f, "%u %u %u", &in, &to, &n) == 3)
		users += n;
	fclose(f);
	return users >= UINT32_MAX;
}

bool host_names_alike(uint32_t uid)
{
	return uid == overflow_uid() && !maps_everybody();
}

/* Inside two nested namespaces the outer uid cannot be read: `softhca run` tells it. */
static bool told(uint32_t uid, uint32_t *out)
{
	const char *text = secure_getenv(HOST_NAMES_TOLD);
	unsigned int inside, name;

	if (!text || sscanf(text, "%u:%u", &inside, &name) != 2 || inside != uid)
		return false;
	*out = name;
	return true;
}

int host_names_uid(uint32_t *out)
{
	uint32_t uid = geteuid();
	int err;

	if (told(uid, out))
		return 0;
	err = outer(uid, out);
	if (err == ENOENT)
		return EPERM;
	if (err && uid == overflow_uid())
		return EPERM;
	if (err)
		*out = uid; /* no /proc */
	return 0;
}

#define SLOT "slot." /* and a number: the shared name */

enum way { BIND, CONNECT };

static int whole_name(uint32_t uid, const char *name, char *buf, size_t n)
{
	char who[16] = "all";

	if (uid != HOST_NAMES_ALL)
		snprintf(who, sizeof(who), "%u", uid);
	return snprintf(buf, n, "softhca.%d.%s.%s", HOST_LAYOUT, who, name);
}

/* A socket that has the name, or is connected to it. */
static int named(enum way way, uint32_t uid, const char *name, int *fd)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int n = whole_name(uid, name, sa.sun_path + 1, NAME_ROOM - 1), s, err;
	socklen_t len;

	len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (s < 0)
		return errno;
	if (way == BIND ? bind(s, (struct sockaddr *)&sa, len)
			: connect(s, (struct sockaddr *)&sa, len)) {
		err = errno;
		close(s);
		return err;
	}
	*fd = s;
	return 0;
}

int host_name_bind_any(uint32_t uid, const char *name, int *fd)
{
	return named(BIND, uid, name, fd);
}

int host_name_listen_any(uint32_t uid, const char *name, int *fd)
{
	int s = -1, err = host_name_bind_any(uid, name, &s);

	if (err)
		return err;
	if (listen(s, BACKLOG)) {
		err = errno;
		close(s);
		return err;
	}
	*fd = s;
	return 0;
}

int host_name_connect_any(uint32_t uid, const char *name, int *fd)
{
	return named(CONNECT, uid, name, fd);
}

static const char *slot_name(unsigned int slot, char *buf, size_t n)
{
	snprintf(buf, n, SLOT "%u", slot);
	return buf;
}

static int connect_shared(unsigned int slot, int *fd)
{
	char name[32];

	return host_name_connect_any(HOST_NAMES_ALL, slot_name(slot, name, sizeof(name)), fd);
}

static bool is_bound(uint32_t uid, const char *name)
{
	int fd;

	if (host_name_bind_any(uid, name, &fd))
		return true;
	close(fd);
	return false;
}

/* Has anybody bound the slot's shared name? */
static bool is_slot_bound(unsigned int slot)
{
	char name[32];

	return is_bound(HOST_NAMES_ALL, slot_name(slot, name, sizeof(name)));
}

/* Is who listens at the other end of our user? *@holder: whose, if it is not NULL. */
static bool leads_to_us(int conn, uint32_t *holder)
{
	struct ucred cred;
	socklen_t len = sizeof(cred);

	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return false;
	if (holder)
		*holder = cred.uid;
	return cred.uid == geteuid();
}

/* --- listeners whose queue is full: nobody can connect and ask whose they are --- */

struct full {
	char stem[NAME_ROOM]; /* of the names */
	uint64_t asked[NUMBER_SLOTS / 64]; /* bits: the numbers behind it */
	bool any;
	unsigned int ours, foreign; /* how many of them the kernel says to be whose */
	uint32_t holder; /* the user of one that is foreign */
};

static void full_begin(struct full *f, uint32_t uid, const char *stem)
{
	*f = (struct full){ 0 };
	whole_name(uid, stem, f->stem, sizeof(f->stem));
}

static void full_add(struct full *f, unsigned int k)
{
	f->asked[k / 64] |= UINT64_C(1) << k % 64;
	f->any = true;
}

static void take_owner(void *arg, const char *name, uint32_t uid)
{
	struct full *f = arg;
	size_t n = strlen(f->stem);
	unsigned int k;
	char digits[16];

	if (strncmp(name, f->stem, n) || sscanf(name + n, "%u", &k) != 1 || k >= NUMBER_SLOTS ||
	    !(f->asked[k / 64] & UINT64_C(1) << k % 64))
		return;
	snprintf(digits, sizeof(digits), "%u", k);
	if (strcmp(name + n, digits))
		return; /* "07" is another name */
	f->asked[k / 64] &= ~(UINT64_C(1) << k % 64);
	if (uid == geteuid()) {
		f->ours++;
	} else {
		f->foreign++;
		f->holder = uid;
	}
}

/* Where the kernel cannot be asked, none is anybody's. */
static void full_end(struct full *f)
{
	if (f->any)
		unix_listeners(take_owner, f);
}

/* Is there one of which the kernel has not said whose it is? */
static bool full_unknown(const struct full *f)
{
	uint64_t left = 0;

	for (unsigned int i = 0; i < NUMBER_SLOTS / 64; i++)
		left |= f->asked[i];
	return left;
}

/* --- whose a name is --- */

/* *fd: connected to a process of our user. EAGAIN: the queue is full, whosever it is. */
static int connect_to_us(uint32_t uid, const char *name, int *fd)
{
	int conn, err = host_name_connect_any(uid, name, &conn);

	if (err)
		return err;
	if (!leads_to_us(conn, NULL)) {
		close(conn);
		return EPERM;
	}
	*fd = conn;
	return 0;
}

static enum host_name whose_now(uint32_t uid, const char *stem, unsigned int k)
{
	struct full full;
	char name[NAME_ROOM];
	int conn, err;
	bool ours;

	snprintf(name, sizeof(name), "%s%u", stem, k);
	err = host_name_connect_any(uid, name, &conn);
	if (!err) {
		ours = leads_to_us(conn, NULL);
		close(conn);
		return ours ? HOST_NAME_OURS : HOST_NAME_FOREIGN;
	}
	if (err != EAGAIN)
		return err == ECONNREFUSED ? HOST_NAME_SILENT : HOST_NAME_UNKNOWN;
	full_begin(&full, uid, stem);
	full_add(&full, k);
	full_end(&full);
	return full.ours ? HOST_NAME_OURS : full.foreign ? HOST_NAME_FOREIGN : HOST_NAME_UNKNOWN;
}

enum host_name host_name_whose(uint32_t uid, const char *stem, unsigned int k)
{
	enum host_name whose = whose_now(uid, stem, k);

	/* Its holder may have ended before the kernel was asked. */
	return whose == HOST_NAME_UNKNOWN ? whose_now(uid, stem, k) : whose;
}

bool host_names_short(int err)
{
	return err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS;
}

/* A process of our user at one of the names of @stem from @first up to @end, but for @but. EAGAIN:
 * it is there, and its queue is full; EBUSY: a queue is full, and nobody knows whose; ENOENT: there
 * is none; EMFILE …: that could not be seen. The kernel is asked once at most. */
static int find(uint32_t uid, const char *stem, unsigned int first, unsigned int end,
		unsigned int but, int *fd)
{
	struct full full;
	char name[NAME_ROOM];
	int err;

	full_begin(&full, uid, stem);
	for (unsigned int k = first; k < end; k++) {
		if (k == but)
			continue;
		snprintf(name, sizeof(name), "%s%u", stem, k);
		err = connect_to_us(uid, name, fd);
		if (!err)
			return 0;
		if (host_names_short(err))
			return err;
		if (err == EAGAIN)
			full_add(&full, k);
	}
	full_end(&full);
	if (full.ours)
		return EAGAIN;
	return full_unknown(&full) ? EBUSY : ENOENT;
}

int host_names_find(uint32_t uid, const char *stem, unsigned int first, unsigned int end, int *fd)
{
	int err = find(uid, stem, first, end, end, fd);

	return err == EBUSY ? EAGAIN : err;
}

static const char *own_name(unsigned int slot, unsigned int k, char *buf, size_t n)
{
	snprintf(buf, n, "own.%u.%u", slot, k);
	return buf;
}

/* The process of our user that has the slot under one of the first @n names of its own. EAGAIN: its
 * queue is full; ENOENT: none is known. */
static int find_own(unsigned int slot, unsigned int n, unsigned int but, int *fd)
{
	char stem[32];
	uint32_t uid;
	int err;

	if (host_names_uid(&uid))
		return ENOENT;
	snprintf(stem, sizeof(stem), "own.%u.", slot);
	err = find(uid, stem, 0, n, but, fd);
	return err && err != EAGAIN ? ENOENT : err;
}

static bool is_taken_own(unsigned int slot, unsigned int but)
{
	int conn, err = find_own(slot, HOST_NAMES_OWN, but, &conn);

	if (!err)
		close(conn);
	return err != ENOENT;
}

/* Whoever takes a slot listens first and looks then: of two at once one sees the other. */
int host_name_bind(unsigned int slot, int *fd)
{
	char name[32];
	int err = host_name_listen_any(HOST_NAMES_ALL, slot_name(slot, name, sizeof(name)), fd);

	if (err || !is_taken_own(slot, HOST_NAMES_OWN))
		return err;
	close(*fd);
	return EADDRINUSE;
}

/* A name to which nobody listens is none of ours: a process of ours that is about to listen looks
 * at own names afterwards. */
static bool is_foreign(unsigned int slot)
{
	enum host_name whose = host_name_whose(HOST_NAMES_ALL, SLOT, slot);

	return whose == HOST_NAME_SILENT || whose == HOST_NAME_FOREIGN;
}

int host_name_bind_own(unsigned int slot, int *fd)
{
	char name[32];
	uint32_t uid;
	int err = host_names_uid(&uid);
	unsigned int k;

	if (err)
		return err;
	err = EADDRINUSE;
	for (k = 0; k < HOST_NAMES_OWN && err == EADDRINUSE; k++)
		err = host_name_listen_any(uid, own_name(slot, k, name, sizeof(name)), fd);
	if (err || (is_foreign(slot) && !is_taken_own(slot, k - 1)))
		return err;
	close(*fd);
	return EADDRINUSE;
}

/* Packets to slots that nobody has come in numbers, so that little is tried for those. */
int host_name_connect(unsigned int slot, int *fd)
{
	int shared, own, err = connect_shared(slot, &shared), found;

	if (!err && leads_to_us(shared, NULL)) {
		*fd = shared;
		return 0;
	}
	if (err && err != ECONNREFUSED && err != EAGAIN)
		return err;
	found = find_own(slot, err == ECONNREFUSED && !is_slot_bound(slot) ? 1 : HOST_NAMES_OWN,
			 HOST_NAMES_OWN, &own);
	if (found == ENOENT) {
		if (!err)
			*fd = shared;
		return err;
	}
	if (!err)
		close(shared);
	if (!found)
		*fd = own;
	return found;
}

int host_name_list(uint32_t uid, unsigned int slot, int *fd)
{
	char name[32];

	return host_name_bind_any(uid, slot_name(slot, name, sizeof(name)), fd);
}

struct host_foreign host_names_foreign(uint32_t uid, const char *stem, unsigned int first,
				       unsigned int end)
{
	struct host_foreign f = { .holder = HOST_NAMES_ALL };
	char name[NAME_ROOM];
	uint32_t whose = 0;
	struct full full;
	int fd = -1, err;

	full_begin(&full, uid, stem);
	for (unsigned int k = first; k < end; k++) {
		snprintf(name, sizeof(name), "%s%u", stem, k);
		err = host_name_connect_any(uid, name, &fd);
		f.silent += err == ECONNREFUSED && is_bound(uid, name);
		if (err == EAGAIN)
			full_add(&full, k);
		if (err)
			continue;
		if (!leads_to_us(fd, &whose)) {
			f.holder = whose;
			f.n++;
		}
		close(fd);
	}
	full_end(&full);
	if (full.foreign)
		f.holder = full.holder;
	f.n += f.silent + full.foreign;
	return f;
}

struct host_foreign host_names_foreign_slots(void)
{
	return host_names_foreign(HOST_NAMES_ALL, SLOT, 0, NUMBER_SLOTS);
}

static unsigned int find_layout(unsigned int slot)
{
	FILE *names = fopen("/proc/net/unix", "re");
	unsigned int layout, n, found = 0;
	char line[512];
	const char *at;

	while (names && !found && fgets(line, sizeof(line), names)) {
		at = strstr(line, " @softhca.");
		if (at && sscanf(at, " @softhca.%u.%*[^.].slot.%u", &layout, &n) == 2 &&
		    n == slot && layout != HOST_LAYOUT)
			found = layout;
	}
	if (names)
		fclose(names);
	return found;
}

/* A requester that gives up asks under its turn. */
unsigned int host_names_foreign_layout(unsigned int slot)
{
	unsigned int found;

	UNCANCELLED(found, find_layout(slot));
	return found;
}

static bool add_others(uint64_t taken[NUMBER_SLOTS / 64])
{
	FILE *names = fopen("/proc/net/unix", "re");
	unsigned int layout, slot;
	bool found = false;
	char line[512];
	const char *at;

	while (names && fgets(line, sizeof(line), names)) {
		at = strstr(line, " @softhca.");
		if (!at || sscanf(at, " @softhca.%u.all.slot.%u", &layout, &slot) != 2 ||
		    layout == HOST_LAYOUT || slot >= NUMBER_SLOTS)
			continue;
		taken[slot / 64] |= UINT64_C(1) << slot % 64;
		found = true;
	}
	if (names)
		fclose(names);
	return found;
}

bool host_names_add_others(uint64_t taken[NUMBER_SLOTS / 64])
{
	bool found;

	UNCANCELLED(found, add_others(taken));
	return found;
}

unsigned int host_names_other_layout(uint32_t uid)
{
	FILE *names = fopen("/proc/net/unix", "re");
	unsigned int layout, whose, slot, found = 0;
	char line[512];
	const char *at;

	while (names && !found && fgets(line, sizeof(line), names)) {
		at = strstr(line, " @softhca.");
		if (at && sscanf(at, " @softhca.%u.%u.slot.%u", &layout, &whose, &slot) == 3 &&
		    whose == uid && layout != HOST_LAYOUT)
			found = layout;
	}
	if (names)
		fclose(names);
	return found;
}

static void read_names(uint32_t uid, uint64_t taken[NUMBER_SLOTS / 64])
{
	FILE *names = fopen("/proc/net/unix", "re");
	char line[512], format[64];
	unsigned int slot;
	const char *at;

	memset(taken, 0, NUMBER_SLOTS / 8);
	if (!names)
		return;
	snprintf(format, sizeof(format), "@softhca.%d.%u.slot.%%u", HOST_LAYOUT, uid);
	while (fgets(line, sizeof(line), names)) {
		at = strstr(line, " @softhca.");
		if (at && sscanf(at + 1, format, &slot) == 1 && slot < NUMBER_SLOTS)
			taken[slot / 64] |= UINT64_C(1) << slot % 64;
	}
	fclose(names);
}

/* Datagrams to groups and frames look for processes under their queue pair's turn. */
void host_names_read(uint32_t uid, uint64_t taken[NUMBER_SLOTS / 64])
{
	int was = uncancelled_begin();

	read_names(uid, taken);
	uncancelled_end(was);
}
