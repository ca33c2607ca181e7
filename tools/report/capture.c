// SPDX-License-Identifier: MIT
#include "capture.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	MAGIC = 0x1a2b3c4d,
	BLOCK_HEAD = 8, /* type and length */
	BLOCK_LEAST = 12, /* and the length again */
	SECTION_LEAST = 16, /* and which byte order it has */
	PACKET_HEAD = 20, /* interface, time, two lengths */
	INTERFACE_HEAD = 8,
	OPT_COMMENT = 1,
	OPT_FLAGS = 2,
	OPT_TSRESOL = 9,
	OUTBOUND = 2,
	DIRECTION = 3,
};

const char capture_not_one[] = "no pcapng file, as SOFTHCA_TRACE writes them";

struct capture_file {
	struct capture_file *next;
	uint8_t *at;
	size_t size;
	uint32_t tick; /* ns of a unit of time, in the section in hand */
	bool cut; /* a part of it cannot be read */
};

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint16_t get16(const uint8_t *p)
{
	uint16_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* The next option at *@at, which moves behind it. NULL: there is none. */
static const uint8_t *option(const uint8_t **at, const uint8_t *end, uint16_t *code, uint16_t *len)
{
	const uint8_t *p = *at;
	size_t padded;

	if (end - p < 4)
		return NULL;
	*code = get16(p);
	*len = get16(p + 2);
	padded = ((size_t)*len + 3) & ~(size_t)3;
	if (!*code || padded > (size_t)(end - p) - 4)
		return NULL;
	*at = p + 4 + padded;
	return p + 4;
}

static void read_interface(struct capture_file *f, const uint8_t *body, const uint8_t *end)
{
	const uint8_t *at = body + INTERFACE_HEAD, *value;
	uint16_t code, len;

	if (end - body < INTERFACE_HEAD)
		return;
	f->tick = 1000; /* what the format means when nothing is said */
	while ((value = option(&at, end, &code, &len)))
		if (code == OPT_TSRESOL && len == 1)
			f->tick = *value == 9 ? 1 : 1000;
}

static struct capture_packet *room_for_one(struct capture *c)
{
	size_t room = c->room ? c->room * 2 : 1024;
	struct capture_packet *more;

	if (c->count < c->room)
		return &c->packets[c->count];
	more = reallocarray(c->packets, room, sizeof(*more));
	if (!more)
		return NULL;
	c->packets = more;
	c->room = room;
	return &c->packets[c->count];
}

static int read_packet(struct capture *c, const struct capture_file *f, const uint8_t *body,
		       const uint8_t *end)
{
	struct capture_packet *p = room_for_one(c);
	const uint8_t *at, *value;
	uint16_t code, len;
	size_t padded;

	if (!p)
		return ENOMEM;
	if (end - body < PACKET_HEAD)
		return EBADMSG;
	*p = (struct capture_packet){ .frame = body + PACKET_HEAD, .len = get32(body + 12) };
	padded = ((size_t)p->len + 3) & ~(size_t)3;
	if (padded > (size_t)(end - p->frame))
		return EBADMSG;
	p->time = ((uint64_t)get32(body + 4) << 32 | get32(body + 8)) * f->tick;
	at = p->frame + padded;
	while ((value = option(&at, end, &code, &len))) {
		if (code == OPT_COMMENT && !p->comment) {
			p->comment = (const char *)value;
			p->comment_len = len;
		} else if (code == OPT_FLAGS && len == 4) {
			p->outbound = (get32(value) & DIRECTION) == OUTBOUND;
		}
	}
	c->count++;
	return 0;
}

static bool lengths_agree(const struct capture_file *f, size_t at)
{
	size_t left = f->size - at;
	uint32_t size = left < BLOCK_LEAST ? 0 : get32(f->at + at + 4);

	return size >= BLOCK_LEAST && size % 4 == 0 && size <= left &&
	       get32(f->at + at + size - 4) == size;
}

/* A section has our byte order. Where the end of a block is missing, the length of the next one,
 * which often has the same, may stand in its place. */
static bool is_block(const struct capture_file *f, size_t at)
{
	const uint8_t *block = f->at + at;
	size_t tail;

	if (!lengths_agree(f, at))
		return false;
	tail = at + get32(block + 4) - BLOCK_HEAD;
	if (get32(f->at + tail) == BLOCK_PACKET && lengths_agree(f, tail))
		return false;
	return get32(block) != BLOCK_SECTION ||
	       (get32(block + 4) >= SECTION_LEAST && get32(block + BLOCK_HEAD) == MAGIC);
}

static bool is_understood(uint32_t type)
{
	return type == BLOCK_SECTION || type == BLOCK_INTERFACE || type == BLOCK_PACKET;
}

/* Where the next block begins: at @at, or behind half a one, which a full disk has left there.
 * f->size: nowhere. */
static size_t next_block(struct capture_file *f, size_t at)
{
	if (is_block(f, at))
		return at;
	f->cut = true;
	do
		if (f->size - ++at < BLOCK_LEAST)
			return f->size;
	while (!is_understood(get32(f->at + at)) || !is_block(f, at));
	return at;
}

static int read_block(struct capture *c, struct capture_file *f, const uint8_t *block)
{
	const uint8_t *body = block + BLOCK_HEAD, *end = block + get32(block + 4) - 4;
	int err;

	if (get32(block) == BLOCK_INTERFACE)
		read_interface(f, body, end);
	if (get32(block) != BLOCK_PACKET)
		return 0;
	err = read_packet(c, f, body, end);
	if (err != EBADMSG)
		return err;
	f->cut = true;
	return 0;
}

static int read_blocks(struct capture *c, struct capture_file *f)
{
	int err = 0;

	for (size_t at = 0; !err && at < f->size;) {
		at = next_block(f, at);
		if (at == f->size)
			break;
		err = read_block(c, f, f->at + at);
		at += get32(f->at + at + 4);
	}
	c->cut += f->cut;
	return err;
}

/* Read, not mapped: a program may be about to shorten the file. */
static int load(int fd, struct capture_file *f)
{
	struct stat st;
	ssize_t n = 1;

	if (fstat(fd, &st))
		return errno;
	if (st.st_size < BLOCK_LEAST)
		return ENOEXEC;
	f->at = malloc((size_t)st.st_size);
	if (!f->at)
		return ENOMEM;
	while (f->size < (size_t)st.st_size && n > 0) {
		n = read(fd, f->at + f->size, (size_t)st.st_size - f->size);
		f->size += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		return errno;
	if (f->size < BLOCK_LEAST || get32(f->at) != BLOCK_SECTION ||
	    get32(f->at + BLOCK_HEAD) != MAGIC)
		return ENOEXEC;
	return 0;
}

static void file_free(struct capture_file *f)
{
	if (!f)
		return;
	free(f->at);
	free(f);
}

int capture_add(struct capture *c, const char *path)
{
	int err, fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	struct capture_file *f;

	if (fd < 0)
		return errno;
	f = calloc(1, sizeof(*f));
	err = f ? load(fd, f) : ENOMEM;
	close(fd);
	if (err) {
		file_free(f);
		return err;
	}
	f->tick = 1000;
	f->next = c->files;
	c->files = f;
	return read_blocks(c, f);
}

static int by_time(const void *a, const void *b)
{
	const struct capture_packet *p = a, *q = b;

	if (p->time != q->time)
		return p->time < q->time ? -1 : 1;
	return p->frame < q->frame ? -1 : p->frame > q->frame; /* the place in their file */
}

void capture_sort(struct capture *c)
{
	if (c->count)
		qsort(c->packets, c->count, sizeof(*c->packets), by_time);
}

void capture_free(struct capture *c)
{
	struct capture_file *f;

	while ((f = c->files)) {
		c->files = f->next;
		file_free(f);
	}
	free(c->packets);
	*c = (struct capture){ 0 };
}
