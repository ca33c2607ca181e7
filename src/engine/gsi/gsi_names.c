// SPDX-License-Identifier: MIT
#include "engine/gsi/gsi_names.h"
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
#include "engine/gsi/gsi_own.h"
#include "link/number.h"
#include "net/gid.h"
#include "obs/explain.h"
#include "peers/contact_peer.h"
#include "peers/host_names.h"
#include "util/allowance.h"
#include "util/be.h"

enum { NAME_LEN = 80, USER_LEN = 24, SEARCHES_A_SECOND = 64 };
#define ABSENT_NS UINT64_C(2000000000)

/* Forged messages name any slot, and to look for a process by the names of its user takes 50 system
 * calls: when none was found, ns; 0 never; atomic. */
static uint64_t absent[NUMBER_SLOTS];

static int bind_name(const char *name, int *fd)
{
	uint32_t uid;
	int err = host_names_uid(&uid);

	return err ? err : host_name_bind_any(HOST_NAMES_ALL, name, fd);
}

/* Without a look at our user id: the name is one of all users', and the owner asks the kernel who
 * has connected. */
static int connect_name(const char *name, int *fd)
{
	int err = host_name_connect_any(HOST_NAMES_ALL, name, fd);

	return err == ENOENT ? ECONNREFUSED : err;
}

static const char *port_name(const struct gsi_port *p, char *buf)
{
	int n = snprintf(buf, NAME_LEN, "cm.%x.%u.", p->ps, p->port);
	char *at = buf + n;
	size_t room = NAME_LEN - (size_t)n;

	if (p->any == GSI_ADDRESS)
		snprintf(at, room, "%016llx%016llx", (unsigned long long)get_be64(p->addr.raw),
			 (unsigned long long)get_be64(p->addr.raw + 8));
	else
		snprintf(at, room, "%s", p->any == GSI_ANY4 ? "any4" : "any6");
	return buf;
}

int gsi_name_bind(const struct gsi_port *p, int *fd)
{
	char name[NAME_LEN];

	return bind_name(port_name(p, name), fd);
}

int gsi_name_connect(const struct gsi_port *p, int *fd)
{
	char name[NAME_LEN];

	return connect_name(port_name(p, name), fd);
}

int gsi_name_owner(const struct gsi_port *p, uint32_t *uid)
{
	struct trust_name who;
	int fd, err = gsi_name_connect(p, &fd);

	if (err)
		return err;
	err = contact_user(fd, &who);
	close(fd);
	if (!err && !who.stranger)
		err = EPERM;
	if (!err)
		*uid = who.uid;
	return err;
}

/* How far its owner is believed: of our own user, root, another user. */
enum belief { OF_STRANGER, OF_ROOT, OF_US };

static enum belief belief(int fd, uint32_t *uid)
{
	socklen_t len = sizeof(struct ucred);
	struct ucred cred;

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len))
		return OF_STRANGER;
	*uid = cred.uid;
	return cred.uid == geteuid() ? OF_US : cred.uid ? OF_STRANGER : OF_ROOT;
}

/* @uid: UINT32_MAX: that cannot be seen. */
static void say_passed_over(const struct gsi_port *p, uint32_t uid)
{
	char who[USER_LEN] = "another user";
	static uint64_t times;

	if (uid != UINT32_MAX)
		snprintf(who, sizeof(who), "user id %u", uid);
	if (explain_due(fetch_add_relaxed(&times, 1) + 1))
		reason("connection management: %s has taken port %u at one address, where "
		       "a process has it at all; that process is asked; end the other one",
		       who, p->port);
}

/* The owner of an address and that of the wildcard refuse each other (cm_port.c), so where both are
 * there one has taken a port that was not free. @fd: the address'; -1: its queue is full. */
static int between(struct gsi_port *p, int *fd)
{
	enum belief of_address = OF_STRANGER, of_any;
	uint32_t uid = UINT32_MAX, other;
	int any;

	if (*fd >= 0)
		of_address = belief(*fd, &uid);
	if (of_address == OF_US || gsi_name_connect(p, &any))
		return *fd < 0 ? EAGAIN : 0;
	of_any = belief(any, &other);
	if (of_any <= of_address) {
		close(any);
		return *fd < 0 ? EAGAIN : 0;
	}
	say_passed_over(p, uid);
	if (*fd >= 0)
		close(*fd);
	*fd = any;
	return 0;
}

int gsi_port_connect(uint32_t ps, uint16_t port, const union ibv_gid *addr, int *fd)
{
	struct gsi_port p = { ps, port, GSI_ADDRESS, *addr };
	int conn = -1, err = gsi_name_connect(&p, &conn);

	p.any = gid_is_ipv4(addr) ? GSI_ANY4 : GSI_ANY6;
	if (err == ECONNREFUSED)
		return gsi_name_connect(&p, fd);
	if (!err || err == EAGAIN)
		err = between(&p, &conn);
	if (!err)
		*fd = conn;
	return err;
}

/* Another user may have the name that all share: the process has one of its user's then, of which
 * others may have some, too. */
static const char *process_name(unsigned int slot, unsigned int k, char *buf)
{
	snprintf(buf, NAME_LEN, "cm.process.%u.%u", slot, k);
	return buf;
}

int gsi_process_bind(unsigned int slot, int *fd)
{
	char name[NAME_LEN];
	uint32_t uid;
	int err = host_names_uid(&uid);

	if (err)
		return err;
	snprintf(name, sizeof(name), "cm.process.%u", slot);
	store_relaxed(&absent[slot], 0);
	err = host_name_bind_any(HOST_NAMES_ALL, name, fd);
	for (unsigned int k = 0; k < HOST_NAMES_OWN && err == EADDRINUSE; k++)
		err = host_name_bind_any(uid, process_name(slot, k, name), fd);
	if (!err && listen(*fd, GSI_BACKLOG)) {
		err = errno;
		close(*fd);
	}
	return err;
}

/* Where the kernel shows no pids, both may be one process: messages of connection management go to
 * it then. */
static int owner_check(const struct trust_name *who, unsigned int slot)
{
	int owner, err = contact_owns(who, slot, &owner);

	if (err != EINPROGRESS)
		return err == EPROTO ? ECONNREFUSED : err; /* as if nobody had the name */
	close(owner);
	return 0;
}

static int process_reach(uint32_t uid, const char *name, unsigned int slot, int *fd)
{
	struct trust_name who;
	int s, err = host_name_connect_any(uid, name, &s);

	if (err)
		return err == ENOENT ? ECONNREFUSED : err;
	err = contact_user(s, &who);
	err = err ? err : owner_check(&who, slot);
	if (err)
		close(s);
	else
		*fd = s;
	return err;
}

static bool was_absent(unsigned int slot)
{
	uint64_t at = load_relaxed(&absent[slot]);

	return at && clock_now() - at < ABSENT_NS;
}

/* By a name of our own user. EAGAIN: it may have one of those whose queue is full. */
static int search(unsigned int slot, int *fd)
{
	static struct allowance searches;
	char name[NAME_LEN];
	bool full = false;
	uint32_t uid;
	int err = allowance_take(&searches, SEARCHES_A_SECOND) ? host_names_uid(&uid) : EAGAIN;

	if (err)
		return err; /* it may be there all the same */
	for (unsigned int k = 0; k < HOST_NAMES_OWN; k++) {
		err = process_reach(uid, process_name(slot, k, name), slot, fd);
		if (err != ECONNREFUSED && err != EAGAIN)
			return err;
		full |= err == EAGAIN;
	}
	if (full)
		return EAGAIN;
	store_relaxed(&absent[slot], clock_now());
	return ECONNREFUSED;
}

int gsi_process_connect(unsigned int slot, int *fd)
{
	char name[NAME_LEN];
	int err, found;

	if (slot >= NUMBER_SLOTS)
		return ECONNREFUSED;
	snprintf(name, sizeof(name), "cm.process.%u", slot);
	err = process_reach(HOST_NAMES_ALL, name, slot, fd);
	if ((err != ECONNREFUSED && err != EAGAIN) || was_absent(slot))
		return err;
	found = search(slot, fd);
	return found == ECONNREFUSED ? err : found;
}

/* --- messages --- */

static int say(int fd, const void *m, size_t len)
{
	ssize_t n = send(fd, m, len, MSG_DONTWAIT | MSG_NOSIGNAL);

	close(fd);
	return n == (ssize_t)len ? 0 : EAGAIN;
}

int gsi_process_say(unsigned int slot, const void *m, size_t len)
{
	int fd, err;

	if (gsi_own_slot(slot))
		return gsi_own_say(m, len);
	err = gsi_process_connect(slot, &fd);
	return err ? err : say(fd, m, len);
}

int gsi_port_say(uint32_t ps, uint16_t port, const union ibv_gid *addr, const void *m, size_t len)
{
	struct gsi_port p = { ps, port, GSI_ADDRESS, *addr };
	int fd, err;

	if (gsi_own_owns(&p) && !gsi_own_say(m, len))
		return 0;
	err = gsi_port_connect(ps, port, addr, &fd);
	return err ? err : say(fd, m, len);
}

int gsi_block_bind(uint32_t ps, unsigned int block, int *fd)
{
	char name[NAME_LEN];

	snprintf(name, sizeof(name), "cm.eph.%x.%u", ps, block);
	return bind_name(name, fd);
}
