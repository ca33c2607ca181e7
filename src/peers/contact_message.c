// SPDX-License-Identifier: MIT
#include "peers/contact_message.h"
#include <errno.h>
#include <string.h>
#include "peers/host_page.h"

enum { MAGIC = 0x73687063 };

struct bytes { /* as in contact_message.h */
	uint32_t magic, layout, kind, slot;
	uint64_t cookie, cookie_addr;
	uint32_t gen, n_keys;
	uint64_t key_bytes;
	uint32_t ring_size, mail_bit, offers, trusts;
	struct share_message share;
	uint64_t secret_addr, nonce, echo, proof;
};
_Static_assert(sizeof(struct bytes) == CONTACT_MESSAGE_LEN, "a message without gaps");

void contact_message_encode(const struct contact_message *m, uint8_t out[CONTACT_MESSAGE_LEN])
{
	const struct bytes b = {
		.magic = MAGIC,
		.layout = HOST_LAYOUT,
		.kind = m->kind,
		.slot = m->slot,
		.cookie = m->cookie,
		.cookie_addr = m->cookie_addr,
		.gen = m->gen,
		.n_keys = m->n_keys,
		.key_bytes = m->key_bytes,
		.ring_size = m->ring_size,
		.mail_bit = m->mail_bit,
		.offers = m->offers,
		.trusts = m->trusts,
		.share = m->share,
		.secret_addr = m->secret_addr,
		.nonce = m->nonce,
		.echo = m->echo,
		.proof = m->proof,
	};

	memcpy(out, &b, sizeof(b));
}

int contact_message_decode(const uint8_t *in, size_t len, struct contact_message *out)
{
	struct bytes b;

	if (len != sizeof(b))
		return EPROTO;
	memcpy(&b, in, sizeof(b));
	if (b.magic != MAGIC || b.layout != HOST_LAYOUT)
		return EPROTO;
	*out = (struct contact_message){
		.kind = b.kind,
		.slot = b.slot,
		.cookie = b.cookie,
		.cookie_addr = b.cookie_addr,
		.gen = b.gen,
		.n_keys = b.n_keys,
		.key_bytes = b.key_bytes,
		.ring_size = b.ring_size,
		.mail_bit = b.mail_bit,
		.offers = b.offers,
		.trusts = b.trusts,
		.share = b.share,
		.secret_addr = b.secret_addr,
		.nonce = b.nonce,
		.echo = b.echo,
		.proof = b.proof,
	};
	return 0;
}

static bool keys_fit(const struct contact_message *m, uint32_t n_keys, uint64_t key_bytes)
{
	uint64_t entry = n_keys ? key_bytes / n_keys : 0;

	return m->key_bytes <= (UINT64_C(1) << 32) && m->n_keys * entry <= m->key_bytes;
}

bool contact_message_presents(const struct contact_message *m, uint32_t n_keys, uint64_t key_bytes)
{
	return m->slot < NUMBER_SLOTS && m->mail_bit < HOST_MAIL_WORDS * 64 &&
	       keys_fit(m, n_keys, key_bytes);
}
