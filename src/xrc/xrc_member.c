// SPDX-License-Identifier: MIT
#include "xrc/xrc_member.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include "obs/explain.h"

enum {
	LOCK_BYTE = XRC_MEMBERS, /* behind the members' bytes */
	YIELDS = 64, /* tries before each one costs a nap */
	CALL_MS = 4000, /* that a call waits: its holder may wait for a turn, for half of that */
};

static int record(int fd, int command, short type, off_t byte, struct flock *out)
{
	int err;

	*out = (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	do
		err = fcntl(fd, command, out) ? errno : 0;
	while (err == EINTR);
	return err;
}

static int refuse_silent(const struct xrc_domain *d)
{
	char name[32] = "another process";
	struct flock l;

	if (!record(d->fd, F_GETLK, F_WRLCK, LOCK_BYTE, &l) && l.l_type != F_UNLCK && l.l_pid > 0)
		snprintf(name, sizeof(name), "process %d", (int)l.l_pid);
	return refuse(ETIMEDOUT,
		      "%s has had the lock of the XRC domain for %d ms; let it go on (is it "
		      "stopped?)",
		      name, CALL_MS);
}

/* By tries: the kernel refuses to wait (F_SETLKW) where it sees a circle of processes, though
 * another thread of one of them is about to end it. */
static int record_lock(const struct xrc_domain *d)
{
	const struct timespec nap = { .tv_nsec = 1000000 };
	struct flock l;
	int err;

	for (unsigned int i = 0; i < YIELDS + CALL_MS; i++) {
		err = record(d->fd, F_SETLK, F_WRLCK, LOCK_BYTE, &l);
		if (!err)
			return 0;
		if (err != EAGAIN && err != EACCES)
			return refuse(err, "the XRC domain's record lock cannot be had; is there a "
					   "limit on locks (RLIMIT_LOCKS)?");
		if (i < YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
	return refuse_silent(d);
}

int xrc_member_lock(struct xrc_domain *d)
{
	int err;

	mutex_lock(&d->lock);
	err = d->anonymous ? 0 : record_lock(d);
	if (err)
		mutex_unlock(&d->lock);
	return err;
}

void xrc_member_unlock(struct xrc_domain *d)
{
	struct flock l;

	if (!d->anonymous)
		record(d->fd, F_SETLK, F_UNLCK, LOCK_BYTE, &l);
	mutex_unlock(&d->lock);
}

bool xrc_member_lives(const struct xrc_domain *d, uint32_t word)
{
	uint32_t index = (word & ((1U << XRC_MEMBER_BITS) - 1)) - 1;
	struct flock l;

	if (word == d->word || !word)
		return true;
	if (d->anonymous || index >= XRC_MEMBERS || index == d->me)
		return false;
	if (load_relaxed(&d->page->member_gen[index]) != word >> XRC_MEMBER_BITS)
		return false;
	return record(d->fd, F_GETLK, F_WRLCK, index, &l) || l.l_type != F_UNLCK;
}

int xrc_member_enlist(struct xrc_domain *d)
{
	struct flock l;
	uint32_t gen, before;
	int err = EAGAIN;

	if (d->anonymous) {
		d->word = 1;
		return 0;
	}
	for (d->me = 0; d->me < XRC_MEMBERS; d->me++) {
		err = record(d->fd, F_SETLK, F_WRLCK, d->me, &l);
		if (!err || (err != EAGAIN && err != EACCES))
			break;
	}
	if (err)
		return refuse(ENOMEM,
			      "ibv_open_xrcd: %d processes have this XRC domain open, as "
			      "many as may; close it in some",
			      XRC_MEMBERS);
	gen = load_relaxed(&d->page->member_gen[d->me]) & 0xffff;
	before = gen ? xrc_page_word(gen, d->me) : 0;
	gen = gen % 0xffff + 1;
	store_release(&d->page->member_gen[d->me], gen);
	d->word = xrc_page_word(gen, d->me);
	xrc_page_inherit(d->page, d->me, before);
	return 0;
}
