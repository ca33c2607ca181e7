// SPDX-License-Identifier: MIT
/* The packets of pcapng files, as SOFTHCA_TRACE writes them. A file may contain anything: blocks
 * that are not understood are passed over, and behind half a one the next whole one is looked for.
 * Frames and comments live until capture_free(). */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct capture_packet {
	uint64_t time; /* ns since 1970 */
	const uint8_t *frame; /* Ethernet */
	const char *comment; /* not terminated; NULL: none */
	uint32_t len, comment_len; /* bytes */
	bool outbound;
};

struct capture_file;

struct capture {
	struct capture_packet *packets;
	size_t count, room;
	size_t cut; /* files of which a part cannot be read */
	struct capture_file *files;
};

/* Adds those of a file. ENOEXEC: it is no pcapng file of this byte order, as capture_not_one says.
 * Or another errno. */
int capture_add(struct capture *c, const char *path);
void capture_sort(struct capture *c); /* by time; equal ones of a file stay in their order */
void capture_free(struct capture *c);

extern const char capture_not_one[];
