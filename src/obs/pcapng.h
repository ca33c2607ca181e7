// SPDX-License-Identifier: MIT
/* pcapng files of Ethernet frames, as Wireshark and tcpdump read them: a section header, one
 * interface with times in ns, then a block for each frame, with its direction and a comment.
 *
 * A block is one write at the file's end, so several processes may write to one file: each begins
 * with a section of its own, and all sections are alike, so it does no harm that their blocks mix.
 * Any thread. The byte order is the host's. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PCAPNG_FRAME = 10240, PCAPNG_COMMENT = 512 }; /* bytes at most; more is cut off */

struct pcapng_packet {
	uint64_t time; /* ns since 1970 */
	bool outbound;
	const uint8_t *frame;
	size_t len;
	const char *comment;
};

/* Appends the head of a section to the file, which is made when there is none, for its owner alone.
 * 0 or an errno. */
int pcapng_begin(const char *path);
/* *@half: of the packet, which could not be written, a part is in the file: after it nothing should
 * follow. */
int pcapng_append(const char *path, const struct pcapng_packet *p, bool *half);
