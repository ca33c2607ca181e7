// SPDX-License-Identifier: MIT
#include "peers/contact_state.h"

enum { KINDS = CONTACT_CLAIMED + 1 };

/* clang-format off */
static const struct contact_move moves[CONTACT_STATES][KINDS] = { /* an empty cell: refused */
	[CONTACT_CAME] = {
		[CONTACT_HELLO] =	{ CONTACT_DO_WELCOME, CONTACT_WELCOMED },
		[CONTACT_YIELD] =	{ CONTACT_DO_LEAVE, CONTACT_CAME },
		[CONTACT_SHOW] =	{ CONTACT_DO_SHOW, CONTACT_CAME },
		[CONTACT_CLAIM] =	{ CONTACT_DO_VOUCH, CONTACT_CAME },
	},
	[CONTACT_ASKED] = {
		[CONTACT_WELCOME] =	{ CONTACT_DO_READY, CONTACT_UP },
		[CONTACT_ALIAS] =	{ CONTACT_DO_ADOPT, CONTACT_ASKED },
		[CONTACT_YIELD] =	{ CONTACT_DO_LEAVE, CONTACT_ASKED },
	},
	[CONTACT_WELCOMED] = {
		[CONTACT_READY] =	{ CONTACT_DO_COMPLETE, CONTACT_UP },
		[CONTACT_YIELD] =	{ CONTACT_DO_LEAVE, CONTACT_WELCOMED },
	},
	[CONTACT_UP] = {
		[CONTACT_YIELD] =	{ CONTACT_DO_LEAVE, CONTACT_UP },
		[CONTACT_FETCHES] =	{ CONTACT_DO_REFER, CONTACT_UP },
		[CONTACT_RING] =	{ CONTACT_DO_RING, CONTACT_UP },
		[CONTACT_SHARE] =	{ CONTACT_DO_SHARE, CONTACT_UP },
		[CONTACT_SHARED] =	{ CONTACT_DO_SHARE, CONTACT_UP },
		[CONTACT_UNSHARE] =	{ CONTACT_DO_SHARE, CONTACT_UP },
		[CONTACT_RUNG] =	{ CONTACT_DO_WAKE, CONTACT_UP },
	},
};
/* clang-format on */

struct contact_move contact_move(enum contact_state now, uint32_t kind,
				 const struct contact_facts *f)
{
	struct contact_move m = { CONTACT_DO_REFUSE, now }, stay = m;

	if (kind < KINDS && moves[now][kind].step != CONTACT_DO_REFUSE)
		m = moves[now][kind];
	if (m.step == CONTACT_DO_WELCOME && f->known)
		stay.step = CONTACT_DO_ALIAS;
	else if (m.step == CONTACT_DO_WELCOME && f->asking && f->first)
		stay.step = CONTACT_DO_YIELD;
	else if (m.step == CONTACT_DO_READY && f->known)
		stay.step = CONTACT_DO_LEAVE;
	else
		return m;
	return stay;
}
