// SPDX-License-Identifier: MIT
/* Preloaded into a program by `softhca run` where no namespace can be made: what the C library's
 * calls say about /sys/class/infiniband*, /sys/class/.softhca and /dev/infiniband is read below the
 * folder SOFTHCA_VIEW_ROOT, which tools/copied.c wrote. All other paths go on as they are.
 *
 * Life time: the folder outlives the program. Threads: every function may be called by any thread;
 * the first call of each looks up the real one, twice at worst. Limits: a path is known by its
 * beginning, so one that reaches these folders by "..", by a link, from the descriptor of a
 * folder above them, or by a call of the kernel without the C library is not. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

typedef void function(void);

/* The function of this name behind this library; a function that calls it begins with REAL_HERE. */
#define REAL(name) ((__typeof__(&(name)))find(&real_here, #name))
#define REAL_HERE  static function *real_here

#define EXPORT __attribute__((visibility("default")))

static function *find(function **real, const char *name)
{
	function *f = __atomic_load_n(real, __ATOMIC_RELAXED);

	if (!f) {
		*(void **)&f = dlsym(RTLD_NEXT, name);
		__atomic_store_n(real, f, __ATOMIC_RELAXED);
	}
	return f;
}

/* What follows @prefix in @path, where repeated slashes count as one; else NULL. */
static const char *behind(const char *path, const char *prefix)
{
	while (*prefix) {
		if (*path++ != *prefix)
			return NULL;
		if (*prefix++ == '/')
			while (*path == '/')
				path++;
	}
	return path;
}

/* SOFTHCA_VIEW_ROOT of the environment that the program was started with; "": not set. It is copied
 * once, as a rule before there are threads: later the program may change the environment, or write
 * its title over the words that it was started with. */
static const char *view_root(void)
{
	static char root[PATH_MAX];
	static int is_read;
	const char *found;

	if (!__atomic_load_n(&is_read, __ATOMIC_ACQUIRE)) { /* pairs with the store */
		found = secure_getenv("SOFTHCA_VIEW_ROOT");
		if (found && strlen(found) < sizeof(root))
			strcpy(root, found);
		__atomic_store_n(&is_read, 1, __ATOMIC_RELEASE);
	}
	return root;
}

__attribute__((constructor)) static void begin(void)
{
	view_root();
}

/* @path, or where it is read instead, in @buf. errno stays. */
static const char *moved(const char *path, char buf[PATH_MAX])
{
	static const struct {
		const char *from, *to;
		bool whole; /* a name, not the beginning of several */
	} rows[] = {
		{ "/sys/class/infiniband", "class/infiniband", false },
		{ "/sys/class/.softhca", "class/.softhca", true },
		{ "/dev/infiniband", "dev/infiniband", true },
	};
	const char *rest;

	if (!path || path[0] != '/')
		return path;
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		rest = behind(path, rows[i].from);
		if (!rest || (rows[i].whole && *rest && *rest != '/'))
			continue;
		if (!*view_root() ||
		    snprintf(buf, PATH_MAX, "%s/%s%s", view_root(), rows[i].to, rest) >= PATH_MAX)
			return path;
		return buf;
	}
	return path;
}

/* A function that hands its arguments on, with another path. */
#define PATH(type, name, sig, arguments)                                                           \
	EXPORT type name sig                                                                       \
	{                                                                                          \
		REAL_HERE;                                                                         \
		char buf[PATH_MAX];                                                                \
		/* NOLINTNEXTLINE(bugprone-macro-parentheses): a list */                           \
		return REAL(name) arguments;                                                       \
	}

/* A function whose last argument, a mode, is there where a file may be made. */
#define MODE(flags)                                                                                \
	mode_t mode = 0;                                                                           \
	if ((flags)&O_CREAT || ((flags)&O_TMPFILE) == O_TMPFILE) {                                 \
		va_list ap;                                                                        \
		va_start(ap, flags);                                                               \
		mode = va_arg(ap, mode_t);                                                         \
		va_end(ap);                                                                        \
	}
#define OPEN_FIRST(name)                                                                           \
	EXPORT int name(const char *path, int flags, ...)                                          \
	{                                                                                          \
		REAL_HERE;                                                                         \
		char buf[PATH_MAX];                                                                \
		MODE(flags)                                                                        \
		return REAL(name)(moved(path, buf), flags, mode);                                  \
	}
#define OPEN_SECOND(name)                                                                          \
	EXPORT int name(int dir, const char *path, int flags, ...)                                 \
	{                                                                                          \
		REAL_HERE;                                                                         \
		char buf[PATH_MAX];                                                                \
		MODE(flags)                                                                        \
		return REAL(name)(dir, moved(path, buf), flags, mode);                             \
	}

OPEN_FIRST(open)
OPEN_SECOND(openat)

/* glibc's names for files of any size; in musl's headers they are macros for the plain ones. */
#ifdef __GLIBC__
OPEN_FIRST(open64)
OPEN_SECOND(openat64)
#define PATH64 PATH
#else
#define PATH64(...)
#endif

/* Those that only old or fortified programs call; no header declares them. */
int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int dir, const char *path, int flags);
int __openat64_2(int dir, const char *path, int flags);
int __xstat(int version, const char *path, struct stat *st);
int __xstat64(int version, const char *path, struct stat64 *st);
int __lxstat(int version, const char *path, struct stat *st);
int __lxstat64(int version, const char *path, struct stat64 *st);
ssize_t __readlink_chk(const char *path, char *to, size_t size, size_t have);
ssize_t __readlinkat_chk(int dir, const char *path, char *to, size_t size, size_t have);
char *__realpath_chk(const char *path, char *to, size_t have);

PATH(int, __open_2, (const char *path, int flags), (moved(path, buf), flags))
PATH(int, __open64_2, (const char *path, int flags), (moved(path, buf), flags))
PATH(int, __openat_2, (int dir, const char *path, int flags), (dir, moved(path, buf), flags))
PATH(int, __openat64_2, (int dir, const char *path, int flags), (dir, moved(path, buf), flags))
PATH(FILE *, fopen, (const char *path, const char *how), (moved(path, buf), how))
PATH64(FILE *, fopen64, (const char *path, const char *how), (moved(path, buf), how))
PATH(FILE *, freopen, (const char *path, const char *how, FILE *f), (moved(path, buf), how, f))
PATH64(FILE *, freopen64, (const char *path, const char *how, FILE *f), (moved(path, buf), how, f))

PATH(int, stat, (const char *path, struct stat *st), (moved(path, buf), st))
PATH64(int, stat64, (const char *path, struct stat64 *st), (moved(path, buf), st))
PATH(int, lstat, (const char *path, struct stat *st), (moved(path, buf), st))
PATH64(int, lstat64, (const char *path, struct stat64 *st), (moved(path, buf), st))
PATH(int, fstatat, (int dir, const char *path, struct stat *st, int flags),
     (dir, moved(path, buf), st, flags))
PATH64(int, fstatat64, (int dir, const char *path, struct stat64 *st, int flags),
       (dir, moved(path, buf), st, flags))
PATH(int, __xstat, (int version, const char *path, struct stat *st),
     (version, moved(path, buf), st))
PATH(int, __xstat64, (int version, const char *path, struct stat64 *st),
     (version, moved(path, buf), st))
PATH(int, __lxstat, (int version, const char *path, struct stat *st),
     (version, moved(path, buf), st))
PATH(int, __lxstat64, (int version, const char *path, struct stat64 *st),
     (version, moved(path, buf), st))
PATH(int, statx, (int dir, const char *path, int flags, unsigned int mask, struct statx *st),
     (dir, moved(path, buf), flags, mask, st))
PATH(int, access, (const char *path, int mode), (moved(path, buf), mode))
PATH(int, eaccess, (const char *path, int mode), (moved(path, buf), mode))
PATH(int, euidaccess, (const char *path, int mode), (moved(path, buf), mode))
PATH(int, faccessat, (int dir, const char *path, int mode, int flags),
     (dir, moved(path, buf), mode, flags))

// cppcheck-suppress CastIntegerToAddressAtReturn ; __typeof__ makes it a pointer
PATH(DIR *, opendir, (const char *path), (moved(path, buf)))
PATH(int, scandir,
     (const char *path, struct dirent ***list, int (*take)(const struct dirent *),
      int (*order)(const struct dirent **, const struct dirent **)),
     (moved(path, buf), list, take, order))
PATH64(int, scandir64,
       (const char *path, struct dirent64 ***list, int (*take)(const struct dirent64 *),
	int (*order)(const struct dirent64 **, const struct dirent64 **)),
       (moved(path, buf), list, take, order))
PATH(int, chdir, (const char *path), (moved(path, buf)))

PATH(ssize_t, readlink, (const char *path, char *to, size_t size), (moved(path, buf), to, size))
PATH(ssize_t, readlinkat, (int dir, const char *path, char *to, size_t size),
     (dir, moved(path, buf), to, size))
PATH(ssize_t, __readlink_chk, (const char *path, char *to, size_t size, size_t have),
     (moved(path, buf), to, size, have))
PATH(ssize_t, __readlinkat_chk, (int dir, const char *path, char *to, size_t size, size_t have),
     (dir, moved(path, buf), to, size, have))
PATH(char *, realpath, (const char *path, char *to), (moved(path, buf), to))
PATH(char *, __realpath_chk, (const char *path, char *to, size_t have),
     (moved(path, buf), to, have))
// cppcheck-suppress CastIntegerToAddressAtReturn ; __typeof__ makes it a pointer
PATH(char *, canonicalize_file_name, (const char *path), (moved(path, buf)))
PATH(ssize_t, getxattr, (const char *path, const char *name, void *value, size_t size),
     (moved(path, buf), name, value, size))
PATH(ssize_t, lgetxattr, (const char *path, const char *name, void *value, size_t size),
     (moved(path, buf), name, value, size))
PATH(ssize_t, listxattr, (const char *path, char *list, size_t size),
     (moved(path, buf), list, size))
PATH(ssize_t, llistxattr, (const char *path, char *list, size_t size),
     (moved(path, buf), list, size))
PATH(int, glob, (const char *path, int flags, int (*failed)(const char *, int), glob_t *found),
     (moved(path, buf), flags, failed, found))
PATH64(int, glob64,
       (const char *path, int flags, int (*failed)(const char *, int), glob64_t *found),
       (moved(path, buf), flags, failed, found))
