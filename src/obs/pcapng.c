// SPDX-License-Identifier: MIT
#include "obs/pcapng.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "util/output.h"
#include "util/uncancelled.h"

enum {
	BLOCK_SECTION = 0x0a0d0d0a,
	BLOCK_INTERFACE = 1,
	BLOCK_PACKET = 6,
	MAGIC = 0x1a2b3c4d,
	ETHERNET = 1, /* link type */
	OPT_COMMENT = 1,
	OPT_USERAPPL = 4, /* of a section */
	OPT_NAME = 2, /* of an interface */
	OPT_TSRESOL = 9,
	OPT_FLAGS = 2, /* of a packet */
	INBOUND = 1,
	OUTBOUND = 2,
	BLOCK_MAX = PCAPNG_FRAME + PCAPNG_COMMENT + 128,
};

struct block {
	uint8_t b[BLOCK_MAX];
	size_t n;
};

static void put(struct block *b, const void *p, size_t n)
{
	memcpy(b->b + b->n, p, n);
	b->n += n;
}

static void put32(struct block *b, uint32_t v)
{
	put(b, &v, sizeof(v));
}

static void put16(struct block *b, uint16_t v)
{
	put(b, &v, sizeof(v));
}

static void pad(struct block *b)
{
	while (b->n % 4)
		b->b[b->n++] = 0;
}

static void option(struct block *b, uint16_t code, const void *p, size_t n)
{
	put16(b, code);
	put16(b, (uint16_t)n);
	put(b, p, n);
	pad(b);
}

static void begin(struct block *b, uint32_t type)
{
	b->n = 0;
	put32(b, type);
	put32(b, 0); /* its length, from end() */
}

/* No more options, and the length in front and behind. */
static void end(struct block *b)
{
	uint32_t n;

	put32(b, 0);
	n = (uint32_t)b->n + 4;
	put32(b, n);
	memcpy(b->b + 4, &n, sizeof(n));
}

/* Opened for each: a descriptor that is kept does not survive a program that closes all it does
 * not know, and then uses the number. O_NONBLOCK: a FIFO that nobody reads keeps no turn. */
static int append_block(const char *path, const struct block *b, int flags, bool *half)
{
	int err = 0, fd;
	size_t at;
	ssize_t n;

	*half = false;
	fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, 0600);
	if (fd < 0)
		return errno;
	for (at = 0; at < b->n; at += (size_t)n) { /* again, for the reason only */
		n = output_write(fd, b->b + at, b->n - at);
		if (n <= 0) {
			err = n < 0 ? errno : ENOSPC;
			break;
		}
	}
	close(fd);
	*half = err && at;
	return err;
}

static int append(const char *path, const struct block *b, int flags, bool *half)
{
	int err;

	UNCANCELLED(err, append_block(path, b, flags, half)); /* packets are sent under turns */
	return err;
}

int pcapng_begin(const char *path)
{
	static const char who[] = "softhca " SOFTHCA_VERSION, name[] = "softhca";
	const uint8_t ns = 9;
	struct block section, interface;
	bool half;

	begin(&section, BLOCK_SECTION);
	put32(&section, MAGIC);
	put16(&section, 1); /* version 1.0 */
	put16(&section, 0);
	put32(&section, UINT32_MAX); /* a section of unknown length */
	put32(&section, UINT32_MAX);
	option(&section, OPT_USERAPPL, who, sizeof(who) - 1);
	end(&section);
	begin(&interface, BLOCK_INTERFACE);
	put16(&interface, ETHERNET);
	put16(&interface, 0);
	put32(&interface, 0); /* frames are whole */
	option(&interface, OPT_NAME, name, sizeof(name) - 1);
	option(&interface, OPT_TSRESOL, &ns, sizeof(ns));
	end(&interface);
	put(&section, interface.b, interface.n); /* one write: no other block in between */
	return append(path, &section, O_CREAT, &half);
}

int pcapng_append(const char *path, const struct pcapng_packet *p, bool *half)
{
	uint32_t flags = p->outbound ? OUTBOUND : INBOUND;
	uint32_t kept = p->len < PCAPNG_FRAME ? (uint32_t)p->len : PCAPNG_FRAME;
	struct block b;

	begin(&b, BLOCK_PACKET);
	put32(&b, 0); /* the interface */
	put32(&b, (uint32_t)(p->time >> 32));
	put32(&b, (uint32_t)p->time);
	put32(&b, kept);
	put32(&b, (uint32_t)p->len);
	put(&b, p->frame, kept);
	pad(&b);
	option(&b, OPT_COMMENT, p->comment, strnlen(p->comment, PCAPNG_COMMENT));
	option(&b, OPT_FLAGS, &flags, sizeof(flags));
	end(&b);
	return append(path, &b, 0, half);
}
