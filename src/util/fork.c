// SPDX-License-Identifier: MIT
#include "util/fork.h"
#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static const uint32_t before_init;
static uint32_t last_epoch; /* highest epoch of this process and its ancestors; survives a fork */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the page's creation */
static uint32_t *page;

const uint32_t *fork_page = &before_init;

static void lock_take(void)
{
	pthread_mutex_lock(&lock);
}

static void lock_drop(void)
{
	pthread_mutex_unlock(&lock);
}

static int page_make(void)
{
	size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		return ENOMEM;
	if (madvise(p, size, MADV_WIPEONFORK) || pthread_atfork(lock_take, lock_drop, lock_drop)) {
		munmap(p, size);
		return ENOMEM;
	}
	page = p;
	return 0;
}

int fork_init(void)
{
	int err = 0;

	pthread_mutex_lock(&lock);
	if (!page)
		err = page_make();
	if (!err && !*page) {
		__atomic_store_n(page, ++last_epoch, __ATOMIC_RELEASE);
		__atomic_store_n(&fork_page, page, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&lock);
	return err;
}
