// SPDX-License-Identifier: MIT
#include "link/fault_live.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "util/barrier.h"
#include "util/fork.h"
#include "util/mutex.h"
#include "util/sealed.h"

#define NAME "softhca-fault"

enum { PAGE = 4096 };

struct live { /* written by the tool */
	uint32_t seq; /* odd while the text is being written */
	char text[FAULT_TEXT];
};

static struct mutex lock = MUTEX_INITIALIZER; /* guards the making */
static struct live *live; /* made in epoch; a forked child does not have its parent's */
static uint32_t epoch;
static int live_fd = -1;

/* In a forked child the page is its parent's. Under lock. */
static void give_up_page(void)
{
	if (live_fd >= 0)
		close(live_fd);
	live_fd = -1;
	store_release(&live, NULL); /* pairs with fault_live_changed() */
}

void fault_live_start(void)
{
	void *map;

	mutex_lock(&lock);
	if (!fork_is_ours(epoch)) {
		give_up_page();
		if (!sealed_make(NAME, PAGE, SEALED_ALLOCATED, &live_fd, &map))
			store_release(&live, map); /* pairs with fault_live_changed() */
		epoch = fork_epoch();
	}
	mutex_unlock(&lock);
}

void fault_live_fork_begin(void)
{
	mutex_lock(&lock);
}

void fault_live_fork_end(bool child)
{
	if (child)
		give_up_page();
	mutex_unlock(&lock);
}

bool fault_live_changed(uint32_t *seen, struct fault_config *out)
{
	const struct live *l = load_acquire(&live); /* pairs with fault_live_start() */
	uint32_t seq = l ? load_acquire(&l->seq) : 0; /* (S) */
	char text[FAULT_TEXT];

	if (seq == *seen || seq & 1)
		return false;
	for (unsigned int i = 0; i < FAULT_TEXT; i++)
		text[i] = load_relaxed(&l->text[i]);
	text[FAULT_TEXT - 1] = '\0';
	read_barrier(); /* (S): the text before the number again */
	if (load_relaxed(&l->seq) != seq)
		return false;
	*seen = seq;
	return !fault_parse(text, out);
}

/* --- the tool --- */

int fault_live_write(pid_t pid, const char *text)
{
	size_t n = strlen(text) + 1;
	struct live *l;
	uint32_t seq;
	int fd, err;

	if (n > FAULT_TEXT)
		return EMSGSIZE;
	err = sealed_find(pid, NAME, true, &fd);
	if (err)
		return err;
	err = sealed_map(fd, PAGE, true, (void **)&l);
	close(fd);
	if (err)
		return err;
	seq = (load_relaxed(&l->seq) | 1) + 2; /* odd; and another than before */
	store_relaxed(&l->seq, seq);
	write_barrier(); /* (S): odd before the text */
	for (size_t i = 0; i < n; i++)
		store_relaxed(&l->text[i], text[i]);
	store_release(&l->seq, seq + 1); /* (S) */
	sealed_unmap(l, PAGE);
	return 0;
}
