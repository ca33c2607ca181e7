// SPDX-License-Identifier: MIT
/* What a program or library for this machine asks of the loader: read from its file, which may
 * contain anything; nothing outside the file is touched. Strings live until binary_close(). */
#pragma once
#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct binary {
	const uint8_t *at; /* the whole file, mapped */
	size_t size;
	const Elf64_Phdr *ph;
	unsigned int n_ph;
	const Elf64_Dyn *dyn; /* NULL: static */
	size_t n_dyn;
	const char *strings; /* the dynamic section's; NULL: none */
	size_t strings_size;
	bool interp; /* a loader is named: it is a dynamic program */
};

/* ENOEXEC: no ELF file; ENOTSUP: one of another machine or word length. Or another errno. */
int binary_open(const char *path, struct binary *out);
void binary_close(struct binary *e);

/* The value of the dynamic tag, its @nth from 0; false: there are not so many. */
bool binary_tag(const struct binary *e, int64_t tag, unsigned int nth, uint64_t *value);
const char *binary_string(const struct binary *e, uint64_t offset); /* NULL: outside */

/* Calls @each with each version that is needed (of a library), or that is defined (library NULL);
 * @weak: it may be missing. */
typedef void binary_version(void *arg, const char *library, const char *version, bool weak);
void binary_needs(const struct binary *e, binary_version *each, void *arg);
void binary_defines(const struct binary *e, binary_version *each, void *arg);
