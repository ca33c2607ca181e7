// SPDX-License-Identifier: MIT
/* The checks of a range of this process's memory that a kernel makes when it pins pages: is every
 * page mapped, readable, writable where that is asked for, and ordinary memory? They populate the
 * pages. */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* EFAULT with a reason that names @call and the first address that fails. @len > 0, no wrap. */
int memory_check(uint64_t addr, uint64_t len, bool write, const char *call);
/* The same from /proc/self/maps alone, for kernels before 5.14: it refuses neither device memory
 * nor the part of a mapping behind its file's end. */
int memory_check_maps(uint64_t addr, uint64_t len, bool write, const char *call);
/* EINVAL: not all of it lies in huge pages (hugetlbfs, MAP_HUGETLB); EFAULT: not mapped. */
int memory_check_huge(uint64_t addr, uint64_t len, const char *call);
/* Populates as much of a range as it can, and records no reason. EFAULT: not all of it. */
int memory_populate(uint64_t addr, uint64_t len, bool write);
