// SPDX-License-Identifier: MIT
#include "xrc/xrc_member.h"
#include <errno.h>
#include <fcntl.h>
#include "obs/explain.h"

enum { LOCK_BYTE = XRC_MEMBERS }; /* behind the members' bytes */

static int record(int fd, int command, short type, off_t byte, struct flock *out)
{
	int err;

	*out = (struct flock){ .l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1 };
	do
		err = fcntl(fd, command, out) ? errno : 0;
	while (err == EINTR);
	return err;
}

int xrc_member_lock(struct xrc_domain *d)
{
	struct flock l;
	int err;

	mutex_lock(&d->lock);
	err = d->anonymous ? 0 : record(d->fd, F_SETLKW, F_WRLCK, LOCK_BYTE, &l);
	if (err) {
		mutex_unlock(&d->lock);
		return refuse(err,
			      "the XRC domain's record lock cannot be had; is there a limit on "
			      "locks (RLIMIT_LOCKS)?");
	}
	return 0;
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
