// SPDX-License-Identifier: MIT
#include "binary.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#define MACHINE EM_X86_64
#elif defined(__aarch64__)
#define MACHINE EM_AARCH64
#endif

/* What is looked at of a file, whose chains may have no end. */
enum { VERSIONS = 4096, TAGS = 4096 /* of the dynamic section */, STRING = 65536 /* bytes */ };

/* NULL: not wholly inside the file, or not where such a thing may lie. */
static const void *part(const struct binary *e, uint64_t offset, uint64_t len, uint64_t align)
{
	if (offset > e->size || len > e->size - offset || offset % align)
		return NULL;
	return e->at + offset;
}

/* The place in the file of what is loaded at @addr; SIZE_MAX: none. */
static uint64_t place(const struct binary *e, uint64_t addr)
{
	for (unsigned int i = 0; i < e->n_ph; i++)
		if (e->ph[i].p_type == PT_LOAD && addr - e->ph[i].p_vaddr < e->ph[i].p_filesz)
			return addr - e->ph[i].p_vaddr + e->ph[i].p_offset;
	return SIZE_MAX;
}

static int check_header(const struct binary *e, const Elf64_Ehdr *h)
{
	if (!h || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0)
		return ENOEXEC;
	if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB ||
	    h->e_machine != MACHINE)
		return ENOTSUP;
	return part(e, h->e_phoff, (uint64_t)h->e_phnum * sizeof(*e->ph), 8) ? 0 : ENOEXEC;
}

static int read_segments(struct binary *e)
{
	const Elf64_Ehdr *h = part(e, 0, sizeof(*h), 1);
	int err = check_header(e, h);

	if (err)
		return err;
	e->ph = part(e, h->e_phoff, (uint64_t)h->e_phnum * sizeof(*e->ph), 8);
	e->n_ph = h->e_phnum;
	for (unsigned int i = 0; i < e->n_ph; i++) {
		const Elf64_Phdr *p = &e->ph[i];

		e->interp |= p->p_type == PT_INTERP;
		if (p->p_type != PT_DYNAMIC)
			continue;
		e->dyn = part(e, p->p_offset, p->p_filesz, 8);
		e->n_dyn = e->dyn ? p->p_filesz / sizeof(*e->dyn) : 0;
		e->n_dyn = e->n_dyn < TAGS ? e->n_dyn : TAGS;
	}
	return 0;
}

static void read_strings(struct binary *e)
{
	uint64_t at, size;

	if (!binary_tag(e, DT_STRTAB, 0, &at) || !binary_tag(e, DT_STRSZ, 0, &size))
		return;
	e->strings = part(e, place(e, at), size, 1);
	e->strings_size = e->strings ? size : 0;
}

int binary_open(const char *path, struct binary *out)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err = 0;
	struct stat st;
	void *map;

	*out = (struct binary){ 0 };
	if (fd < 0)
		return errno;
	if (fstat(fd, &st))
		err = errno;
	else if (!S_ISREG(st.st_mode) || !st.st_size)
		err = ENOEXEC;
	if (!err) {
		map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
		if (map == MAP_FAILED)
			err = errno;
	}
	close(fd);
	if (err)
		return err;
	out->at = map;
	out->size = (size_t)st.st_size;
	err = read_segments(out);
	if (err)
		binary_close(out);
	else
		read_strings(out);
	return err;
}

void binary_close(struct binary *e)
{
	if (e->at)
		munmap((void *)(uintptr_t)e->at, e->size);
	e->at = NULL;
}

bool binary_tag(const struct binary *e, int64_t tag, unsigned int nth, uint64_t *value)
{
	for (size_t i = 0; i < e->n_dyn && e->dyn[i].d_tag != DT_NULL; i++) {
		if (e->dyn[i].d_tag != tag || nth--)
			continue;
		*value = e->dyn[i].d_un.d_val;
		return true;
	}
	return false;
}

const char *binary_string(const struct binary *e, uint64_t offset)
{
	size_t most = offset < e->strings_size ? e->strings_size - offset : 0;

	if (!most || !memchr(e->strings + offset, '\0', most < STRING ? most : STRING))
		return NULL;
	return e->strings + offset;
}

/* @left: versions that may still be looked at. */
static void library_needs(const struct binary *e, uint64_t at, const Elf64_Verneed *need,
			  unsigned int *left, binary_version *each, void *arg)
{
	const char *library = binary_string(e, need->vn_file);
	uint64_t aux = at + need->vn_aux;

	for (unsigned int i = 0; library && i < need->vn_cnt && *left; i++, --*left) {
		const Elf64_Vernaux *a = part(e, aux, sizeof(*a), 4);
		const char *version = a ? binary_string(e, a->vna_name) : NULL;

		if (!version)
			return;
		each(arg, library, version, a->vna_flags & VER_FLG_WEAK);
		aux += a->vna_next;
		if (!a->vna_next)
			return;
	}
}

void binary_needs(const struct binary *e, binary_version *each, void *arg)
{
	unsigned int left = VERSIONS;
	uint64_t at;

	if (!binary_tag(e, DT_VERNEED, 0, &at))
		return;
	at = place(e, at);
	for (unsigned int i = 0; i < VERSIONS; i++) {
		const Elf64_Verneed *need = part(e, at, sizeof(*need), 4);

		if (!need)
			return;
		library_needs(e, at, need, &left, each, arg);
		at += need->vn_next;
		if (!need->vn_next)
			return;
	}
}

void binary_defines(const struct binary *e, binary_version *each, void *arg)
{
	uint64_t at;

	if (!binary_tag(e, DT_VERDEF, 0, &at))
		return;
	at = place(e, at);
	for (unsigned int i = 0; i < VERSIONS; i++) {
		const Elf64_Verdef *def = part(e, at, sizeof(*def), 4);
		const Elf64_Verdaux *name =
			def ? part(e, at + def->vd_aux, sizeof(*name), 4) : NULL;
		const char *version = name ? binary_string(e, name->vda_name) : NULL;

		if (!version)
			return;
		each(arg, NULL, version, false);
		at += def->vd_next;
		if (!def->vd_next)
			return;
	}
}
