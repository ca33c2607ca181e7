// SPDX-License-Identifier: MIT
#include "util/secret.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/random.h>
#include <unistd.h>
#include "util/uncancelled.h"

static int ask_kernel(void *p, size_t n)
{
	ssize_t got;

	do
		got = getrandom(p, n, 0); /* up to 256 bytes come whole */
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)n ? 0 : got < 0 ? errno : EIO;
}

static bool read_device(void *p, size_t n)
{
	int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
	ssize_t got;

	if (fd < 0)
		return false;
	do
		got = read(fd, p, n); /* as getrandom() */
	while (got < 0 && errno == EINTR);
	close(fd);
	return got == (ssize_t)n;
}

int secret_fill(void *p, size_t n)
{
	int was = uncancelled_begin(), err = ask_kernel(p, n);

	if (err && read_device(p, n))
		err = 0;
	uncancelled_end(was);
	return err;
}

int secret_number(uint64_t *out)
{
	uint64_t secret = 0;
	int err = 0;

	while (!err && !secret)
		err = secret_fill(&secret, sizeof(secret));
	if (!err)
		*out = secret;
	return err;
}
