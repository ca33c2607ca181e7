// SPDX-License-Identifier: MIT
#include "peers/mapping.h"
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "test.h"
#include "util/guard.h"

enum { PAGE = 4096, SIZE = 16 * PAGE };

static int file(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);

	check(fd >= 0);
	check_eq(ftruncate(fd, SIZE), 0);
	return fd;
}

static uint8_t *map(int fd, off_t at, size_t len, int flags)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, flags, fd, at);

	check(p != MAP_FAILED);
	return p;
}

static int find(const uint8_t *p, size_t len, struct mapping_file *f, int *fd)
{
	return mapping_find((uintptr_t)p, len, f, fd);
}

TEST(the_same_bytes_are_found_and_mapped)
{
	int fd = file("a"), other = file("b"), found;
	uint8_t *p = map(fd, 2 * PAGE, 6 * PAGE, MAP_SHARED);
	struct mapping_file f;
	struct mapping m;

	check_eq(find(p + 100, 3 * PAGE, &f, &found), 0);
	check_eq(found, fd);
	check_eq(f.offset, 2 * PAGE + 100);
	check_eq(f.len, 3 * PAGE);
	check_eq(mapping_make(&f, fd, &m), 0);
	check(m.writable);
	for (size_t i = 0; i < f.len; i++)
		m.at[i] = (uint8_t)(i * 7);
	for (size_t i = 0; i < f.len; i++)
		check_eq(p[100 + i], (uint8_t)(i * 7));
	check_eq(p[99], 0);
	check_eq(p[100 + f.len], 0);
	mapping_end(&m);
	mapping_end(&m);
	munmap(p, 6 * PAGE);
	close(fd);
	close(other);
}

/* The same file again, opened in another way. */
static int again(int fd, int flags)
{
	char path[32];
	int got;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	got = open(path, flags | O_CLOEXEC);
	check(got >= 0);
	return got;
}

TEST(of_several_descriptors_one_is_found_that_a_peer_can_map)
{
	int fd = file("a"), path = again(fd, O_PATH), out = again(fd, O_WRONLY);
	int in = again(fd, O_RDONLY), both = again(fd, O_RDWR), found;
	uint8_t *p = map(fd, 0, SIZE, MAP_SHARED);
	struct mapping_file f;

	close(fd);
	check_eq(find(p, SIZE, &f, &found), 0);
	check_eq(found, both);
	close(both);
	check_eq(find(p, SIZE, &f, &found), 0);
	check_eq(found, in);
	close(in);
	check_eq(find(p, SIZE, &f, &found), ENOENT);
	close(out);
	close(path);
	munmap(p, SIZE);
}

TEST(what_others_cannot_map_is_not_found)
{
	int fd = file("a"), found;
	uint8_t *shared = map(fd, 0, SIZE, MAP_SHARED), *own = map(fd, 0, SIZE, MAP_PRIVATE);
	uint8_t *none = map(-1, 0, SIZE, MAP_PRIVATE | MAP_ANONYMOUS);
	uint8_t *nameless = map(-1, 0, SIZE, MAP_SHARED | MAP_ANONYMOUS);
	struct mapping_file f;

	check_eq(find(shared, SIZE, &f, &found), 0);
	check_eq(find(shared, SIZE + 1, &f, &found), ENOENT); /* not in one piece */
	check_eq(find(own, SIZE, &f, &found), ENOENT);
	check_eq(find(none, SIZE, &f, &found), ENOENT);
	check_eq(find(nameless, SIZE, &f, &found), ENOENT);
	munmap(own, SIZE);
	check_eq(find(own, SIZE, &f, &found), ENOENT);
	close(fd); /* the program has no handle left */
	check_eq(find(shared, SIZE, &f, &found), ENOENT);
	munmap(shared, SIZE);
	munmap(none, SIZE);
	munmap(nameless, SIZE);
}

TEST(a_file_with_locks_is_left_alone)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int fd = file("a"), found;
	uint8_t *p = map(fd, 0, SIZE, MAP_SHARED);
	struct mapping_file f;

	check_eq(fcntl(fd, F_SETLK, &lock), 0);
	check_eq(find(p, SIZE, &f, &found), EBUSY);
	lock.l_type = F_UNLCK;
	check_eq(fcntl(fd, F_SETLK, &lock), 0);
	check_eq(find(p, SIZE, &f, &found), 0);
	munmap(p, SIZE);
	close(fd);
}

static struct mapping_file about(int fd)
{
	struct stat st;

	check_eq(fstat(fd, &st), 0);
	return (struct mapping_file){ st.st_dev, st.st_ino, 0, SIZE };
}

/* What a hostile peer may send. */
TEST(what_is_not_that_memory_is_not_mapped)
{
	int fd = file("a"), other = file("b"), zero = open("/dev/zero", O_RDWR | O_CLOEXEC);
	int exe = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct mapping_file f = about(fd), g;
	struct mapping m;

	check_eq(mapping_make(&f, other, &m), EPROTO);
	check_eq(mapping_make(&f, zero, &m), EPROTO);
	g = about(zero);
	check_eq(mapping_make(&g, zero, &m), EPROTO);
	g = about(exe);
	g.len = PAGE;
	check_eq(mapping_make(&g, open("/proc/self/exe", O_DIRECTORY), &m), EPROTO);
	g = f;
	g.len = SIZE + 1;
	check_eq(mapping_make(&g, fd, &m), EPROTO);
	g = f;
	g.offset = 1;
	check_eq(mapping_make(&g, fd, &m), EPROTO);
	g.offset = UINT64_MAX - SIZE + 2;
	check_eq(mapping_make(&g, fd, &m), EPROTO);
	g = f;
	g.len = 0;
	check_eq(mapping_make(&g, fd, &m), EPROTO);
	check_eq(mapping_make(&f, fd, &m), 0);
	mapping_end(&m);
	close(fd);
	close(other);
	close(zero);
	close(exe);
}

TEST(what_is_sealed_against_writing_is_mapped_for_reading)
{
	int fd = file("a");
	struct mapping_file f = about(fd);
	struct mapping m;
	uint8_t byte;

	check_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	check_eq(mapping_make(&f, fd, &m), 0);
	check(!m.writable);
	check_eq(guard_copy(&byte, m.at, 1), 0);
	check_eq(guard_copy(m.at, &byte, 1), EFAULT);
	mapping_end(&m);
	close(fd);
}

TEST(a_file_that_was_cut_short_is_an_error_of_the_copy)
{
	int fd = file("a");
	struct mapping_file f = about(fd);
	static uint8_t here[SIZE];
	struct mapping m;

	check_eq(mapping_make(&f, fd, &m), 0);
	check_eq(ftruncate(fd, PAGE), 0);
	check_eq(guard_init(), 0);
	check_eq(guard_copy(m.at, here, PAGE), 0);
	check_eq(guard_copy(m.at, here, PAGE + 1), EFAULT);
	check_eq(guard_copy(here, m.at, SIZE), EFAULT);
	mapping_end(&m);
	close(fd);
}

RUN_TESTS(unit_test(the_same_bytes_are_found_and_mapped),
	  unit_test(of_several_descriptors_one_is_found_that_a_peer_can_map),
	  unit_test(what_others_cannot_map_is_not_found),
	  unit_test(a_file_with_locks_is_left_alone),
	  unit_test(what_is_not_that_memory_is_not_mapped),
	  unit_test(what_is_sealed_against_writing_is_mapped_for_reading),
	  unit_test(a_file_that_was_cut_short_is_an_error_of_the_copy))
