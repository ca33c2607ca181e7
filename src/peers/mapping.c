// SPDX-License-Identifier: MIT
#include "peers/mapping.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

struct area {
	uint64_t start, end, offset, ino;
	unsigned int major, minor;
	char rights[5]; /* "rw-s" */
};

static bool next_area(FILE *maps, struct area *a)
{
	int c, got = fscanf(maps, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64,
			    &a->start, &a->end, a->rights, &a->offset, &a->major, &a->minor,
			    &a->ino);

	do
		c = fgetc(maps);
	while (c != '\n' && c != EOF);
	return got == 7;
}

static int find_area(uint64_t addr, uint64_t len, struct area *a)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	bool found = false;

	while (maps && !found && next_area(maps, a) && a->start <= addr)
		found = a->end > addr;
	if (maps)
		fclose(maps);
	return found && a->rights[3] == 's' && a->ino && len <= a->end - addr ? 0 : ENOENT;
}

static bool is_memory(int fd)
{
	struct statfs fs;

	return !fstatfs(fd, &fs) && (fs.f_type == TMPFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC);
}

static bool is_file(int fd, const struct mapping_file *f, struct stat *st)
{
	return !fstat(fd, st) && S_ISREG(st->st_mode) && st->st_dev == f->dev &&
	       st->st_ino == f->ino && is_memory(fd);
}

/* A peer cannot map what is open as a path or for writing alone, and ends the contact of one who
 * sends it a path. */
static bool can_be_mapped(int fd, bool *writable)
{
	int flags = fcntl(fd, F_GETFL);

	*writable = (flags & O_ACCMODE) == O_RDWR;
	return flags >= 0 && !(flags & O_PATH) && (flags & O_ACCMODE) != O_WRONLY;
}

/* The first that is open for reading and writing; if there is none, one for reading. */
static int find_fd(const struct mapping_file *f, int *fd)
{
	DIR *all = opendir("/proc/self/fd");
	bool writable = false;
	const struct dirent *e;
	int one, found = -1;
	struct stat st;

	while (all && !writable && (e = readdir(all))) {
		one = atoi(e->d_name);
		if (e->d_name[0] == '.' || !is_file(one, f, &st))
			continue;
		if (can_be_mapped(one, &writable) && (writable || found < 0))
			found = one;
	}
	if (all)
		closedir(all);
	if (found < 0)
		return ENOENT;
	*fd = found;
	return 0;
}

/* POSIX locks, which a close() of any descriptor of the file drops */
static bool has_locks(const struct mapping_file *f)
{
	FILE *locks = fopen("/proc/locks", "re");
	char line[256], name[64];
	bool found = false;

	snprintf(name, sizeof(name), " %02x:%02x:%" PRIu64 " ", major(f->dev), minor(f->dev),
		 f->ino);
	while (locks && !found && fgets(line, sizeof(line), locks))
		found = strstr(line, name) != NULL;
	if (locks)
		fclose(locks);
	return found;
}

int mapping_find(uint64_t addr, uint64_t len, struct mapping_file *out, int *fd)
{
	struct area a;
	int err = find_area(addr, len, &a);

	if (err)
		return err;
	*out = (struct mapping_file){ .dev = makedev(a.major, a.minor),
				      .ino = a.ino,
				      .offset = a.offset + (addr - a.start),
				      .len = len };
	err = find_fd(out, fd);
	return !err && has_locks(out) ? EBUSY : err;
}

int mapping_make(const struct mapping_file *f, int fd, struct mapping *out)
{
	struct mapping m = { .writable = true };
	uint64_t page, before;
	struct stat st;

	if (!is_file(fd, f, &st) || !f->len || (uint64_t)st.st_size < f->len ||
	    f->offset > (uint64_t)st.st_size - f->len)
		return EPROTO;
	page = (uint64_t)st.st_blksize; /* of hugetlbfs: its page */
	if (page < (uint64_t)sysconf(_SC_PAGESIZE) || (page & (page - 1)))
		return EPROTO;
	before = f->offset & (page - 1);
	m.map_len = (f->len + before + page - 1) & ~(page - 1);
	m.map = mmap(NULL, m.map_len, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
		     (off_t)(f->offset - before));
	if (m.map == MAP_FAILED) { /* opened or sealed for reading */
		m.writable = false;
		m.map = mmap(NULL, m.map_len, PROT_READ, MAP_SHARED, fd,
			     (off_t)(f->offset - before));
	}
	if (m.map == MAP_FAILED)
		return errno;
	if (madvise(m.map, m.map_len, MADV_DONTFORK)) {
		munmap(m.map, m.map_len);
		return ENOMEM;
	}
	m.at = (uint8_t *)m.map + before;
	*out = m;
	return 0;
}

void mapping_end(struct mapping *m)
{
	if (m->map)
		munmap(m->map, m->map_len);
	*m = (struct mapping){ 0 };
}
