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
#include "peers/host_page.h"
#include "util/barrier.h"
#include "util/uncancelled.h"

enum { BACKLOG = 1024 };

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

enum way { BIND, CONNECT };

/* A socket that has the name, or is connected to it. */
static int named(enum way way, uint32_t uid, const char *name, int *fd)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char who[16] = "all";
	int n, s, err;
	socklen_t len;

	if (uid != HOST_NAMES_ALL)
		snprintf(who, sizeof(who), "%u", uid);
	n = snprintf(sa.sun_path + 1, sizeof(sa.sun_path) - 1, "softhca.%d.%s.%s", HOST_LAYOUT, who,
		     name);
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

int host_name_connect_any(uint32_t uid, const char *name, int *fd)
{
	return named(CONNECT, uid, name, fd);
}

static const char *slot_name(unsigned int slot, char *buf, size_t n)
{
	snprintf(buf, n, "slot.%u", slot);
	return buf;
}

static int connect_shared(unsigned int slot, int *fd)
{
	char name[32];

	return host_name_connect_any(HOST_NAMES_ALL, slot_name(slot, name, sizeof(name)), fd);
}

/* Has anybody bound the slot's shared name? */
static bool is_bound(unsigned int slot)
{
	char name[32];
	int fd;

	if (host_name_bind_any(HOST_NAMES_ALL, slot_name(slot, name, sizeof(name)), &fd))
		return true;
	close(fd);
	return false;
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

bool host_name_is_ours(uint32_t uid, const char *name, int *fd)
{
	if (host_name_connect_any(uid, name, fd))
		return false;
	if (leads_to_us(*fd, NULL))
		return true;
	close(*fd);
	return false;
}

static const char *own_name(unsigned int slot, unsigned int k, char *buf, size_t n)
{
	snprintf(buf, n, "own.%u.%u", slot, k);
	return buf;
}

/* The process of our user that has the slot under one of the first @n names of its own, but for the
 * name @but. */
static bool is_own(unsigned int slot, unsigned int n, unsigned int but, int *fd)
{
	char name[32];
	uint32_t uid;

	if (host_names_uid(&uid))
		return false;
	for (unsigned int k = 0; k < n; k++)
		if (k != but && host_name_is_ours(uid, own_name(slot, k, name, sizeof(name)), fd))
			return true;
	return false;
}

static bool is_taken_own(unsigned int slot, unsigned int but)
{
	int conn;
	bool yes = is_own(slot, HOST_NAMES_OWN, but, &conn);

	if (yes)
		close(conn);
	return yes;
}

static int bind_and_listen(uint32_t uid, const char *name, int *fd)
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

/* Whoever takes a slot listens first and looks then: of two at once one sees the other. */
int host_name_bind(unsigned int slot, int *fd)
{
	char name[32];
	int err = bind_and_listen(HOST_NAMES_ALL, slot_name(slot, name, sizeof(name)), fd);

	if (err || !is_taken_own(slot, HOST_NAMES_OWN))
		return err;
	close(*fd);
	return EADDRINUSE;
}

/* A name to which nobody listens is none of ours: a process of ours that is about to listen looks
 * at own names afterwards. One whose queue is full may be of a process of ours that is stopped. */
static bool is_foreign(unsigned int slot)
{
	int conn, err = connect_shared(slot, &conn);
	bool ours;

	if (err)
		return err == ECONNREFUSED;
	ours = leads_to_us(conn, NULL);
	close(conn);
	return !ours;
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
		err = bind_and_listen(uid, own_name(slot, k, name, sizeof(name)), fd);
	if (err || (is_foreign(slot) && !is_taken_own(slot, k - 1)))
		return err;
	close(*fd);
	return EADDRINUSE;
}

/* Packets to slots that nobody has come in numbers, so that little is tried for those. */
int host_name_connect(unsigned int slot, int *fd)
{
	int own, err = connect_shared(slot, fd);

	if ((err && err != ECONNREFUSED) || (!err && leads_to_us(*fd, NULL)))
		return err;
	if (!is_own(slot, err && !is_bound(slot) ? 1 : HOST_NAMES_OWN, HOST_NAMES_OWN, &own))
		return err;
	if (!err)
		close(*fd);
	*fd = own;
	return 0;
}

int host_name_list(uint32_t uid, unsigned int slot, int *fd)
{
	char name[32];

	return host_name_bind_any(uid, slot_name(slot, name, sizeof(name)), fd);
}

unsigned int host_names_foreign(uint32_t *holder)
{
	unsigned int foreign = 0;
	uint32_t whose = 0;
	int fd = -1, err;

	*holder = HOST_NAMES_ALL;
	for (unsigned int slot = 0; slot < NUMBER_SLOTS; slot++) {
		err = connect_shared(slot, &fd);
		foreign += err == ECONNREFUSED && is_bound(slot);
		if (err)
			continue;
		if (!leads_to_us(fd, &whose)) {
			*holder = whose;
			foreign++;
		}
		close(fd);
	}
	return foreign;
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
