// SPDX-License-Identifier: MIT
#include "util/arena.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "util/mutex.h"
#include "util/sealed.h"

struct arena_part { /* or what lies free between parts */
	struct arena_part *next; /* of what is free: the one behind it */
	void *at;
	size_t len;
	size_t offset; /* in the file */
	bool shared; /* false: private memory */
};

static struct mutex lock = MUTEX_INITIALIZER; /* guards what follows; innermost */
static struct {
	int fd; /* -1: there is no file */
	dev_t dev;
	ino_t ino;
	size_t end;
	unsigned int parts; /* of this file */
	struct arena_part *free; /* by offset */
} file = { .fd = -1 };
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A program may close all descriptors, and open a file of its own under the number. */
static bool is_open(void)
{
	struct stat st;

	return file.fd >= 0 && !fstat(file.fd, &st) && st.st_dev == file.dev &&
	       st.st_ino == file.ino;
}

static void close_file(void)
{
	if (is_open())
		close(file.fd);
	file.fd = -1;
}

/* --- fork --- */

static void lock_take(void)
{
	mutex_lock(&lock);
}

static void lock_drop(void)
{
	mutex_unlock(&lock);
}

static void in_child(void)
{
	close_file();
	mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_take, lock_drop, in_child);
}

/* --- places in the file, under the lock --- */

/* What is left of the last one goes, or of the parent's. */
static void begin_anew(void)
{
	struct arena_part *gap;

	while ((gap = file.free)) {
		file.free = gap->next;
		free(gap);
	}
	file.end = 0;
	file.parts = 0;
}

static int make_file(void)
{
	int fd = memfd_create("softhca-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	struct stat st;

	if (fd < 0)
		return errno;
	if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) || fstat(fd, &st)) {
		close(fd);
		return EIO;
	}
	begin_anew();
	file.fd = fd;
	file.dev = st.st_dev;
	file.ino = st.st_ino;
	return 0;
}

static bool place_in_gap(struct arena_part *p)
{
	struct arena_part **at = &file.free, *gap;

	while ((gap = *at) && gap->len < p->len)
		at = &gap->next;
	if (!gap)
		return false;
	p->offset = gap->offset;
	gap->offset += p->len;
	gap->len -= p->len;
	if (!gap->len) {
		*at = gap->next;
		free(gap);
	}
	return true;
}

static int place(struct arena_part *p)
{
	int err;

	if (place_in_gap(p))
		return 0;
	err = sealed_size(file.fd, file.end + p->len);
	if (err)
		return err;
	p->offset = file.end;
	file.end += p->len;
	return 0;
}

/* @gap takes in @behind, which begins where it ends. */
static void merge(struct arena_part *gap, struct arena_part *behind)
{
	gap->len += behind->len;
	gap->next = behind->next;
	free(behind);
}

static void unplace(struct arena_part *p)
{
	struct arena_part *before = NULL, *behind = file.free;

	while (behind && behind->offset < p->offset) {
		before = behind;
		behind = behind->next;
	}
	p->next = behind;
	if (before)
		before->next = p;
	else
		file.free = p;
	if (behind && p->offset + p->len == behind->offset)
		merge(p, behind);
	if (before && before->offset + before->len == p->offset)
		merge(before, p);
}

/* --- parts --- */

static int map_shared(struct arena_part *p)
{
	if (fallocate(file.fd, 0, (off_t)p->offset, (off_t)p->len))
		return errno;
	p->at = mmap(NULL, p->len, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd, (off_t)p->offset);
	if (p->at == MAP_FAILED)
		return errno;
	if (!madvise(p->at, p->len, MADV_DONTFORK))
		return 0;
	munmap(p->at, p->len);
	return ENOMEM;
}

/* Gives the pages back. False: the file still has them. */
static bool discard(const struct arena_part *p)
{
	return is_open() && !fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				       (off_t)p->offset, (off_t)p->len);
}

static int take_placed(struct arena_part *p)
{
	int err = place(p);

	if (err)
		return err;
	err = map_shared(p);
	if (err)
		discard(p); /* its place stays empty */
	return err;
}

static int take_shared(struct arena_part *p)
{
	int err = file.fd < 0 ? make_file() : is_open() ? 0 : EBADF;

	err = err ? err : take_placed(p);
	if (!err) {
		p->shared = true;
		file.parts++;
	} else if (!file.parts) {
		close_file();
	}
	return err;
}

static int take_private(struct arena_part *p)
{
	p->at = mmap(NULL, p->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p->at == MAP_FAILED ? ENOMEM : 0;
}

int arena_take(size_t len, struct arena_part **out)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	struct arena_part *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return ENOMEM;
	pthread_once(&once, watch_forks);
	p->len = (len + page - 1) & ~(page - 1);
	mutex_lock(&lock);
	err = take_shared(p);
	mutex_unlock(&lock);
	if (err && take_private(p)) {
		free(p);
		return ENOMEM;
	}
	*out = p;
	return 0;
}

void *arena_at(const struct arena_part *p)
{
	return p->at;
}

void arena_give(struct arena_part *p)
{
	if (!p)
		return;
	munmap(p->at, p->len);
	if (!p->shared) {
		free(p);
		return;
	}
	mutex_lock(&lock);
	if (discard(p))
		unplace(p);
	else
		free(p);
	if (!--file.parts)
		close_file();
	mutex_unlock(&lock);
}
