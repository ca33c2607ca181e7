// SPDX-License-Identifier: MIT
/* A preload in which gettimeofday() runs twenty times as fast. perftest uses that call for one
 * thing, to find out the frequency of the CPU: 0.22 s before each row of figures, on both sides,
 * which is nearly all that a short run takes, and 5 s where it shows every size. Its figures are
 * then wrong by the same factor; the tests look whether there are some, and the bench does not
 * preload this. */
#include <stdint.h>
#include <sys/time.h>
#include <time.h>

enum { NS_TOLD_AS_US = 50 };

__attribute__((visibility("default"))) int gettimeofday(struct timeval *restrict tv,
							void *restrict zone)
{
	struct timespec now;
	int64_t us;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &now);
	us = (now.tv_sec * 1000000000LL + now.tv_nsec) / NS_TOLD_AS_US;
	*tv = (struct timeval){ .tv_sec = us / 1000000, .tv_usec = us % 1000000 };
	return 0;
}
