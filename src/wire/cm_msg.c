// SPDX-License-Identifier: MIT
#include "wire/cm_msg.h"
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include "util/be.h"

enum {
	DATA = 24, /* where the fields of a MAD begin */
	BASE_VERSION = 1,
	CLASS = 7,
	CLASS_VERSION = 2,
	SEND = 3, /* the only method of the class */
	WIDEST = 64, /* bits of a number; more are bytes as they are */
};

struct field {
	uint16_t at; /* first bit of the field, counted from the MAD's data */
	uint16_t width; /* bits */
	uint8_t shift; /* of a number that comes in parts: where this part goes */
	uint8_t size; /* bytes of the struct's member */
	uint16_t member;
};

#define PART(byte, bit, width, member, shift)                                                      \
	{                                                                                          \
		(byte) * 8 + (bit), width, shift, sizeof(((struct cm_msg *)0)->member),            \
			offsetof(struct cm_msg, member)                                            \
	}
#define BITS(byte, bit, width, member) PART(byte, bit, width, member, 0)
#define U8(byte, member)	       BITS(byte, 0, 8, member)
#define U16(byte, member)	       BITS(byte, 0, 16, member)
#define U24(byte, member)	       BITS(byte, 0, 24, member)
#define U32(byte, member)	       BITS(byte, 0, 32, member)
#define U64(byte, member)	       BITS(byte, 0, 64, member)
#define GID(byte, member)	       BITS(byte, 0, 128, member)
#define INFO(byte)		       BITS(byte, 0, CM_INFO_MAX * 8, info)
#define IDS			       U32(0, local_id), U32(4, remote_id)

/* of a REQ: the primary at 52, the alternate at 96 */
#define PATH(byte, n)                                                                              \
	U16(byte, path[n].local_lid), U16((byte) + 2, path[n].remote_lid),                         \
		GID((byte) + 4, path[n].local_gid), GID((byte) + 20, path[n].remote_gid),          \
		BITS((byte) + 36, 0, 20, path[n].flow_label),                                      \
		BITS((byte) + 39, 2, 6, path[n].rate), U8((byte) + 40, path[n].tclass),            \
		U8((byte) + 41, path[n].hop_limit), BITS((byte) + 42, 0, 4, path[n].sl),           \
		BITS((byte) + 42, 4, 1, path[n].subnet_local),                                     \
		BITS((byte) + 43, 0, 5, path[n].ack_timeout)

/* clang-format off */
static const struct field req[] = {
	U32(0, local_id), U24(5, vendor_id), U64(8, service_id), U64(16, ca_guid), U32(28, qkey),
	U24(32, qpn), U8(35, responder_resources), U24(36, local_eecn), U8(39, initiator_depth),
	U24(40, remote_eecn), BITS(43, 0, 5, remote_timeout), BITS(43, 5, 2, transport),
	BITS(43, 7, 1, flow_control), U24(44, psn), BITS(47, 0, 5, local_timeout),
	BITS(47, 5, 3, retry_count), U16(48, pkey), BITS(50, 0, 4, path_mtu),
	BITS(50, 4, 1, rdc_exists), BITS(50, 5, 3, rnr_retry), BITS(51, 0, 4, max_cm_retries),
	BITS(51, 4, 1, srq), BITS(51, 5, 3, ext_transport), PATH(52, 0), PATH(96, 1),
	BITS(139, 5, 1, sap_supported),
};
static const struct field mra[] = { IDS, BITS(8, 0, 2, about), BITS(9, 0, 5, service_timeout) };
static const struct field rej[] = {
	IDS, BITS(8, 0, 2, about), BITS(9, 0, 7, info_len), U16(10, reason), INFO(12),
};
static const struct field rep[] = {
	IDS, U32(8, qkey), U24(12, qpn), PART(15, 0, 8, vendor_id, 16), U24(16, local_eecn),
	PART(19, 0, 8, vendor_id, 8), U24(20, psn), PART(23, 0, 8, vendor_id, 0),
	U8(24, responder_resources), U8(25, initiator_depth), BITS(26, 0, 5, ack_delay),
	BITS(26, 5, 2, failover), BITS(26, 7, 1, flow_control), BITS(27, 0, 3, rnr_retry),
	BITS(27, 3, 1, srq), U64(28, ca_guid),
};
static const struct field ids[] = { IDS };
static const struct field dreq[] = { IDS, U24(8, qpn) };
static const struct field sidr_req[] = { U32(0, local_id), U16(4, pkey), U64(8, service_id) };
static const struct field sidr_rep[] = {
	U32(0, local_id), U8(4, reason), U8(5, info_len), PART(6, 0, 16, vendor_id, 8), U24(8, qpn),
	PART(11, 0, 8, vendor_id, 0), U64(12, service_id), U32(20, qkey), INFO(24),
};
static const struct field lap[] = {
	IDS, U24(12, qpn), BITS(15, 0, 5, remote_timeout), U16(20, path[1].local_lid),
	U16(22, path[1].remote_lid), GID(24, path[1].local_gid), GID(40, path[1].remote_gid),
	BITS(56, 0, 20, path[1].flow_label), U8(59, path[1].tclass), U8(60, path[1].hop_limit),
	BITS(61, 2, 6, path[1].rate), BITS(62, 0, 4, path[1].sl),
	BITS(62, 4, 1, path[1].subnet_local), BITS(63, 0, 5, path[1].ack_timeout),
};
static const struct field apr[] = { IDS, U8(8, info_len), U8(9, reason), INFO(12) };

#define FIELDS(f) f, sizeof(f) / sizeof((f)[0])

static const struct layout {
	const char *name;
	const struct field *fields;
	size_t n;
	uint8_t private_at, private_len; /* bytes of the data */
} layouts[] = {
	{ "REQ", FIELDS(req), 140, 92 },
	{ "MRA", FIELDS(mra), 10, 222 },
	{ "REJ", FIELDS(rej), 84, 148 },
	{ "REP", FIELDS(rep), 36, 196 },
	{ "RTU", FIELDS(ids), 8, 224 },
	{ "DREQ", FIELDS(dreq), 12, 220 },
	{ "DREP", FIELDS(ids), 8, 224 },
	{ "SIDR_REQ", FIELDS(sidr_req), 16, 216 },
	{ "SIDR_REP", FIELDS(sidr_rep), 96, 136 },
	{ "LAP", FIELDS(lap), 64, 168 },
	{ "APR", FIELDS(apr), 84, 148 },
};
/* clang-format on */

static const struct layout *layout_of(uint16_t kind)
{
	return kind >= CM_REQ && kind <= CM_APR ? &layouts[kind - CM_REQ] : NULL;
}

/* --- numbers --- */

static uint64_t mask(unsigned int width)
{
	return width == WIDEST ? UINT64_MAX : (UINT64_C(1) << width) - 1;
}

/* @width bits from bit @at on; a number that is wider than 57 bits begins with a byte. */
static uint64_t get_bits(const uint8_t *data, unsigned int at, unsigned int width)
{
	unsigned int end = at % 8 + width;
	uint64_t v = 0;

	for (unsigned int i = 0; i * 8 < end; i++)
		v = v << 8 | data[at / 8 + i];
	return v >> (-end % 8) & mask(width);
}

static void put_bits(uint8_t *data, unsigned int at, unsigned int width, uint64_t v)
{
	unsigned int end = at % 8 + width, bytes = (end + 7) / 8;

	v = (v & mask(width)) << (-end % 8);
	for (unsigned int i = bytes; i--; v >>= 8)
		data[at / 8 + i] |= (uint8_t)v;
}

static uint64_t load(const struct cm_msg *m, const struct field *f)
{
	const uint8_t *p = (const uint8_t *)m + f->member;
	uint32_t v32;
	uint16_t v16;
	uint64_t v;

	switch (f->size) {
	case 1:
		return *p;
	case 2:
		memcpy(&v16, p, sizeof(v16));
		return v16;
	case 4:
		memcpy(&v32, p, sizeof(v32));
		return v32;
	default:
		memcpy(&v, p, sizeof(v));
		return v;
	}
}

static void store(struct cm_msg *m, const struct field *f, uint64_t v)
{
	uint8_t *p = (uint8_t *)m + f->member;
	uint32_t v32 = (uint32_t)v;
	uint16_t v16 = (uint16_t)v;

	switch (f->size) {
	case 1:
		*p = (uint8_t)v;
		break;
	case 2:
		memcpy(p, &v16, sizeof(v16));
		break;
	case 4:
		memcpy(p, &v32, sizeof(v32));
		break;
	default:
		memcpy(p, &v, sizeof(v));
	}
}

/* --- messages --- */

int cm_parse(const uint8_t *mad, size_t len, struct cm_msg *out)
{
	const uint8_t *data = mad + DATA;
	const struct layout *l;

	if (len != MAD_LEN || mad[0] != BASE_VERSION || mad[1] != CLASS ||
	    mad[2] != CLASS_VERSION || mad[3] != SEND)
		return EBADMSG;
	l = layout_of(get_be16(mad + 16));
	if (!l)
		return EBADMSG;
	memset(out, 0, sizeof(*out));
	out->kind = get_be16(mad + 16);
	out->status = get_be16(mad + 4);
	out->tid = get_be64(mad + 8);
	out->modifier = get_be32(mad + 20);
	for (const struct field *f = l->fields; f < l->fields + l->n; f++) {
		if (f->width > WIDEST)
			memcpy((uint8_t *)out + f->member, data + f->at / 8, f->size);
		else
			store(out, f, load(out, f) | get_bits(data, f->at, f->width) << f->shift);
	}
	out->private_len = l->private_len;
	memcpy(out->private_data, data + l->private_at, l->private_len);
	return 0;
}

int cm_build(const struct cm_msg *m, uint8_t mad[MAD_LEN])
{
	const struct layout *l = layout_of(m->kind);
	uint8_t *data = mad + DATA;
	size_t n;

	if (!l)
		return EINVAL;
	memset(mad, 0, MAD_LEN);
	mad[0] = BASE_VERSION;
	mad[1] = CLASS;
	mad[2] = CLASS_VERSION;
	mad[3] = SEND;
	put_be16(mad + 4, m->status);
	put_be64(mad + 8, m->tid);
	put_be16(mad + 16, m->kind);
	put_be32(mad + 20, m->modifier);
	for (const struct field *f = l->fields; f < l->fields + l->n; f++) {
		if (f->width > WIDEST)
			memcpy(data + f->at / 8, (const uint8_t *)m + f->member, f->size);
		else
			put_bits(data, f->at, f->width, load(m, f) >> f->shift);
	}
	n = m->private_len < l->private_len ? m->private_len : l->private_len;
	memcpy(data + l->private_at, m->private_data, n);
	return 0;
}

const char *cm_name(uint16_t kind)
{
	const struct layout *l = layout_of(kind);

	return l ? l->name : NULL;
}

size_t cm_private_room(uint16_t kind)
{
	const struct layout *l = layout_of(kind);

	return l ? l->private_len : 0;
}

/* --- the addresses of the IP service --- */

int cm_ip_parse(const uint8_t *data, size_t len, struct cm_ip *out)
{
	if (len < CM_IP_LEN || data[0] || (data[1] >> 4 != 4 && data[1] >> 4 != 6))
		return EBADMSG;
	out->version = data[1] >> 4;
	out->port = get_be16(data + 2);
	memcpy(out->from, data + 4, sizeof(out->from));
	memcpy(out->to, data + 20, sizeof(out->to));
	return 0;
}

void cm_ip_build(const struct cm_ip *ip, uint8_t data[CM_IP_LEN])
{
	data[0] = 0;
	data[1] = (uint8_t)(ip->version << 4);
	put_be16(data + 2, ip->port);
	memcpy(data + 4, ip->from, sizeof(ip->from));
	memcpy(data + 20, ip->to, sizeof(ip->to));
}
