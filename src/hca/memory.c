// SPDX-License-Identifier: MIT
#include "hca/memory.h"
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "obs/explain.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

struct area {
	uint64_t start, end;
	char rights[5]; /* "rw-p" */
};

static bool next_area(FILE *maps, struct area *a)
{
	int c, got = fscanf(maps, "%" SCNx64 "-%" SCNx64 " %4s", &a->start, &a->end, a->rights);

	do
		c = fgetc(maps);
	while (c != '\n' && c != EOF);
	return got == 3;
}

/* Walks the areas that cover [addr, addr + len). 0: all are mapped with the rights. */
static int walk(FILE *maps, uint64_t addr, uint64_t len, bool write, const char *call)
{
	uint64_t at = addr, end = addr + len;
	struct area a;

	while (at < end && next_area(maps, &a)) {
		if (a.end <= at)
			continue;
		if (a.start > at)
			break;
		if (a.rights[0] != 'r' || (write && a.rights[1] != 'w'))
			return refuse(EFAULT,
				      "%s: 0x%" PRIx64 "+%" PRIu64 ": 0x%" PRIx64 " is mapped "
				      "%.3s, the access flags need %s; map it so or ask for "
				      "less",
				      call, addr, len, at, a.rights, write ? "rw" : "r");
		at = a.end;
	}
	if (at < end)
		return refuse(EFAULT,
			      "%s: 0x%" PRIx64 "+%" PRIu64 ": 0x%" PRIx64 " is not mapped; "
			      "register only memory that is there",
			      call, addr, len, at);
	return 0;
}

int memory_check_maps(uint64_t addr, uint64_t len, bool write, const char *call)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	int err;

	if (!maps)
		return refuse(EFAULT,
			      "%s: /proc/self/maps cannot be read, so 0x%" PRIx64 "+%" PRIu64
			      " cannot be checked; mount /proc",
			      call, addr, len);
	err = walk(maps, addr, len, write, call);
	fclose(maps);
	return err;
}

static bool kernel_populates(uintptr_t page)
{
	static char mine; /* in a page that is certainly mapped and writable */

	return !madvise((void *)((uintptr_t)&mine & ~(page - 1)), page, MADV_POPULATE_WRITE);
}

int memory_populate(uint64_t addr, uint64_t len, bool write)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = addr & ~(page - 1);
	size_t size = (size_t)(addr + len - start);

	if (!madvise((void *)start, size, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	return errno == ENOMEM || errno == EFAULT || kernel_populates(page) ? EFAULT : 0;
}

/* The page size of the mapping whose head line was just read: "KernelPageSize: 2048 kB". Reads on
 * to the line with its flags, which ends it. */
static uint64_t page_size_of(FILE *smaps)
{
	char line[256];
	uint64_t kib = 0;

	while (fgets(line, sizeof(line), smaps) && strncmp(line, "VmFlags:", 8))
		sscanf(line, "KernelPageSize: %" SCNu64, &kib);
	return kib << 10;
}

int memory_check_huge(uint64_t addr, uint64_t len, const char *call)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	uint64_t at = addr, size = 0, small = (uint64_t)sysconf(_SC_PAGESIZE);
	struct area a;

	while (smaps && at < addr + len && next_area(smaps, &a)) {
		size = page_size_of(smaps);
		if (a.end <= at)
			continue;
		if (a.start > at || size <= small)
			break;
		at = a.end;
	}
	if (smaps)
		fclose(smaps);
	if (at >= addr + len)
		return 0;
	return refuse(EINVAL,
		      "%s: 0x%" PRIx64 "+%" PRIu64 ": 0x%" PRIx64 " lies in no huge page, which "
		      "IBV_ACCESS_HUGETLB promises; map it with MAP_HUGETLB or leave the flag out",
		      call, addr, len, at);
}

int memory_check(uint64_t addr, uint64_t len, bool write, const char *call)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = addr & ~(page - 1);
	size_t size = (size_t)(addr + len - start);
	int err;

	if (!madvise((void *)start, size, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	err = errno;
	if (err == EINVAL && !kernel_populates(page))
		return memory_check_maps(addr, len, write, call);
	if (memory_check_maps(addr, len, write, call))
		return EFAULT;
	return refuse(EFAULT,
		      "%s: 0x%" PRIx64 "+%" PRIu64 ": %s; register ordinary memory that is "
		      "there",
		      call, addr, len,
		      err == EFAULT ? "a page cannot be had (behind its file's end?)"
				    : "no ordinary memory (a device's, or secret)");
}
