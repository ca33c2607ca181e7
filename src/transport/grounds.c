// SPDX-License-Identifier: MIT
#include "transport/grounds.h"
#include <stdio.h>
#include "hca/qp_names.h"
#include "util/be.h"

enum { PAGE = 4096 };

/* {d0}: the first number; {x0}: it, as an object's; {s0}: a state; {r0}: rights. */
static const char *const clauses[GROUNDS_CODES] = {
	[GROUNDS_DISABLED] = "the QP's qp_access_flags do not enable it; set them by ibv_modify_qp",
	[GROUNDS_NO_OPERATION] = "it is an operation that this device does not offer",
	[GROUNDS_NOT_FINISHED] = "a new message starts in the middle of another",
	[GROUNDS_NOT_BEGUN] = "it goes on with a message that has not started",
	[GROUNDS_PART] =
		"a packet that is not a message's last brings {d0} B, the path_mtu here is "
		"{d1} B; give both QPs the same path_mtu",
	[GROUNDS_EMPTY_END] = "the last packet of several must bring data",
	[GROUNDS_PSNS] = "its {d0} B have {d1} PSNs, which does not fit the path_mtu here of {d2} "
			 "B; give both QPs the same path_mtu",
	[GROUNDS_SUM] = "its packets do not add up to its length",
	[GROUNDS_LONG] = "it is longer than 2^31 B",
	[GROUNDS_MIDDLE] = "it stands in the middle of another message",
	[GROUNDS_DEPTH] = "more are outstanding than max_dest_rd_atomic, {d0}; lower the "
			  "requester's max_rd_atomic",
	[GROUNDS_ALIGNMENT] = "the address of an atomic must be aligned to 8 bytes",
	[GROUNDS_ATOMIC_PSNS] = "an atomic takes one PSN",
	[GROUNDS_ATOMIC_WRITE] = "an atomic write brings 8 bytes",
	[GROUNDS_MASKS] = "a masked atomic brings 16 bytes of masks",
	[GROUNDS_NO_MEMORY] = "there is no memory for it",
	[GROUNDS_INVALIDATE] = "the key that it invalidates is not bound, or not one that its peer "
			       "may invalidate",
	[GROUNDS_NO_SRQ] = "SRQ 0x{x0} is not in the XRC domain of the QP; name one that is "
			   "(ibv_get_srq_num)",
	[GROUNDS_SHORT] = "the receive has room for {d0} B, at least {d1} B arrived; post larger "
			  "receives",
	[GROUNDS_SHORT_GRH] = "the receive has room for {d0} B, {d1} B arrived with the GRH; post "
			      "larger receives",
	[GROUNDS_RECEIVE_KEY] = "the lkey of sge[{d0}] of the receive does not allow it; its "
				"completion there says more",
	[GROUNDS_RECEIVE_UNMAPPED] = "the memory of the receive is not mapped any more; keep it "
				     "mapped until the completion",
	[GROUNDS_UNMAPPED] = "that memory is not mapped any more; deregister an MR before you "
			     "unmap it",
	[GROUNDS_KEY_UNKNOWN] = "the rkey names no memory region (never registered, or "
				"deregistered)",
	[GROUNDS_KEY_PD] = "the rkey belongs to another PD than the QP; register in the QP's",
	[GROUNDS_KEY_RIGHT] = "the rkey lacks {r0}, its rights are {r1}; register with that",
	[GROUNDS_KEY_BEFORE] =
		"the range begins {d0} B before the region; register more or ask for "
		"less",
	[GROUNDS_KEY_BEHIND] = "the range exceeds the region by {d0} B; register more or ask for "
			       "less",
	[GROUNDS_KEY_RANGE] = "the range does not lie in the region; check its address",
	[GROUNDS_KEY_UNBOUND] = "the rkey is a window's or an mkey's that is not bound; bind it "
				"first",
	[GROUNDS_KEY_QP] = "the rkey is a type 2 window's that another QP has bound; use that QP",
	[GROUNDS_KEY_BENEATH] =
		"a key in the mkey's list does not allow it; look at what the UMR put there",
	[GROUNDS_KEY_SIGNED] = "the rkey is an mkey's with a signature, by which no atomic goes; "
			       "name the memory itself",
	[GROUNDS_NO_QP] = "there is no such QP; was it destroyed, or is the number wrong?",
	[GROUNDS_STATE] = "the QP is in {s0}; it needs RTR or RTS",
	[GROUNDS_ANOTHER] = "the QP is connected to another one; give it this one's number and "
			    "address",
	[GROUNDS_ACCESS_KEY] = "the access key is not the DC target's; give both sides the same "
			       "(mlx5dv_create_qp, mlx5dv_wr_set_dc_addr)",
	[GROUNDS_NO_TARGET] = "the QP of that number is no DC target; name one",
	[GROUNDS_EMPTY_SRQ] = "its SRQ is empty; post more to it, and earlier",
};

/* A number of a peer's, by the letter of its placeholder. */
static int put_number(char kind, uint64_t v, char *buf, size_t n)
{
	char rights[80];

	if (kind == 'r')
		return snprintf(buf, n, "%s", key_rights((unsigned int)v, rights, sizeof(rights)));
	if (kind == 's')
		return snprintf(buf, n, "%s",
				v <= IBV_QPS_ERR ? qp_state_name((enum ibv_qp_state)v)
						 : "no state");
	if (kind == 'x')
		return snprintf(buf, n, "%llx", (unsigned long long)v);
	return snprintf(buf, n, "%llu", (unsigned long long)v);
}

const char *grounds_text(const struct grounds *g, char buf[GROUNDS_TEXT])
{
	const char *from = g->code < GROUNDS_CODES ? clauses[g->code] : NULL;
	size_t at = 0;

	if (!from)
		return NULL;
	for (; *from && at < GROUNDS_TEXT - 1; from++) {
		if (*from != '{') {
			buf[at++] = *from;
			continue;
		}
		at += (size_t)put_number(from[1], g->n[from[2] - '0'], buf + at, GROUNDS_TEXT - at);
		from += 3;
	}
	buf[at < GROUNDS_TEXT ? at : GROUNDS_TEXT - 1] = 0;
	return buf;
}

/* By how much the range misses the region. */
static struct grounds of_range(const struct key_entry *e, const struct key_ask *ask)
{
	uint64_t before = e->iova - ask->va, off = ask->va - e->iova, over;

	if (ask->va < e->iova)
		return before <= PAGE && before < ask->len
			       ? (struct grounds){ GROUNDS_KEY_BEFORE, { before } }
			       : (struct grounds){ GROUNDS_KEY_RANGE };
	over = off < e->len ? ask->len - (e->len - off) : UINT64_MAX;
	return over <= PAGE ? (struct grounds){ GROUNDS_KEY_BEHIND, { over } }
			    : (struct grounds){ GROUNDS_KEY_RANGE };
}

struct grounds grounds_of_key(const struct key_table *t, enum key_verdict v,
			      const struct key_ask *ask)
{
	static const uint8_t codes[] = {
		[KEY_OK] = GROUNDS_UNMAPPED,	    [KEY_UNKNOWN] = GROUNDS_KEY_UNKNOWN,
		[KEY_WRONG_PD] = GROUNDS_KEY_PD,    [KEY_NO_RIGHT] = GROUNDS_KEY_RIGHT,
		[KEY_RANGE] = GROUNDS_KEY_RANGE,    [KEY_UNBOUND] = GROUNDS_KEY_UNBOUND,
		[KEY_WRONG_QP] = GROUNDS_KEY_QP,    [KEY_BENEATH] = GROUNDS_KEY_BENEATH,
		[KEY_DEPTHS] = GROUNDS_KEY_BENEATH, [KEY_APART] = GROUNDS_KEY_BENEATH,
		[KEY_SIGNED] = GROUNDS_KEY_SIGNED,
	};
	struct key_entry e;

	if (v == KEY_NO_RIGHT && key_copy(t, ask->key, &e))
		return (struct grounds){ GROUNDS_KEY_RIGHT, { ask->need & ~e.access, e.access } };
	if (v == KEY_NO_RIGHT)
		v = KEY_UNKNOWN;
	if (v == KEY_RANGE && key_copy(t, ask->key, &e))
		return of_range(&e, ask);
	return (struct grounds){ codes[v] };
}

void grounds_encode(const struct grounds *g, uint8_t out[GROUNDS_BYTES])
{
	put_be32(out, g->code);
	for (int i = 0; i < 3; i++)
		put_be64(out + 4 + 8 * i, g->n[i]);
}

/* Later releases may add to it. */
bool grounds_decode(const uint8_t *in, size_t len, struct grounds *out)
{
	if (len < GROUNDS_BYTES)
		return false;
	out->code = get_be32(in);
	for (int i = 0; i < 3; i++)
		out->n[i] = get_be64(in + 4 + 8 * i);
	return true;
}
