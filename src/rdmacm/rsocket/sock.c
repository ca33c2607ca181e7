// SPDX-License-Identifier: MIT
/* Sockets by their descriptors, and how long they live. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "rdmacm/rsocket/dgram.h"
#include "rdmacm/rsocket/ring.h"

enum { PAGE_BITS = 10, PAGE = 1 << PAGE_BITS, PAGES = 1 << 10 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the table and all references */
static struct sock **table[PAGES];
static unsigned int epoch; /* counts forks: a child's is another */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void lock_table(void)
{
	pthread_mutex_lock(&lock);
}

static void unlock_table(void)
{
	pthread_mutex_unlock(&lock);
}

static void in_child(void)
{
	epoch++;
	pthread_mutex_unlock(&lock);
}

static void watch_forks(void)
{
	pthread_atfork(lock_table, unlock_table, in_child);
}

/* --- the table --- */

static struct sock **place(int fd)
{
	struct sock **page;

	if (fd < 0 || fd >= PAGE * PAGES)
		return NULL;
	page = table[fd >> PAGE_BITS];
	return page ? &page[fd & (PAGE - 1)] : NULL;
}

static int add(struct sock *s)
{
	int err = s->fd < PAGE * PAGES ? 0 : EMFILE;

	lock_table();
	if (!err && !table[s->fd >> PAGE_BITS]) {
		table[s->fd >> PAGE_BITS] = calloc(PAGE, sizeof(struct sock *));
		err = table[s->fd >> PAGE_BITS] ? 0 : ENOMEM;
	}
	if (!err)
		*place(s->fd) = s; /* what a fork left behind under this number is forgotten */
	s->epoch = epoch;
	unlock_table();
	return err;
}

struct sock *sock_find(int fd)
{
	struct sock **at, *s;

	lock_table();
	at = place(fd);
	s = at ? *at : NULL;
	if (s && s->epoch != epoch)
		s = NULL;
	if (s)
		s->refs++;
	unlock_table();
	return s;
}

int sock_get(int fd, struct sock **out)
{
	struct sock **at;
	bool foreign;

	*out = sock_find(fd);
	if (*out) {
		mutex_lock(&(*out)->lock);
		return 0;
	}
	lock_table();
	at = place(fd);
	foreign = at && *at;
	unlock_table();
	return foreign ? softhca_refuse(
				 EIO, "rsocket: descriptor %d is a socket of a parent process", fd)
		       : EBADF;
}

bool sock_remove(int fd, struct sock **out)
{
	struct sock **at, *s;

	*out = NULL;
	lock_table();
	at = place(fd);
	s = at ? *at : NULL;
	if (s)
		*at = NULL;
	if (s && s->epoch == epoch)
		*out = s;
	else if (s)
		uncancelled_close(fd); /* its memory stays the parent's affair */
	unlock_table();
	return s;
}

/* --- life --- */

static void forget_exported(struct sock *s)
{
	struct exported *e;

	while ((e = s->exported)) {
		s->exported = e->next;
		if (e->mr)
			ibv_dereg_mr(e->mr);
		free(e);
	}
}

static void destroy(struct sock *s)
{
	if (s->id) {
		forget_exported(s);
		ring_free(s);
		rdma_destroy_id(s->id);
	}
	if (s->dgram)
		dgram_free(s);
	free(s->opt.route);
	mutex_destroy(&s->lock);
	free(s);
}

void sock_unref(struct sock *s)
{
	bool last;

	lock_table();
	last = !--s->refs;
	unlock_table();
	if (last)
		destroy(s);
}

void sock_put(struct sock *s)
{
	mutex_unlock(&s->lock);
	sock_unref(s);
}

static struct sock *new_sock(void)
{
	struct sock *s = calloc(1, sizeof(*s));

	pthread_once(&once, watch_forks);
	if (!s)
		return NULL;
	mutex_init(&s->lock);
	s->refs = 1;
	s->can_read = s->can_write = true;
	sock_defaults(s);
	return s;
}

int sock_make_dgram(int domain, struct sock **out)
{
	struct sock *s = new_sock();
	int err;

	if (!s)
		return ENOMEM;
	err = dgram_open(s, domain);
	err = err ? err : add(s);
	if (err)
		destroy(s);
	else
		*out = s;
	return err;
}

int sock_make(struct rdma_cm_id *id, const struct sock *like, struct sock **out)
{
	struct sock *s = new_sock();
	int err = 0;

	if (!s)
		return ENOMEM;
	if (like) {
		s->opt = like->opt;
		s->opt.route = NULL;
		s->opt.route_len = 0;
	}
	s->id = id;
	if (!id && rdma_create_id(NULL, &s->id, s, RDMA_PS_TCP))
		err = errno;
	if (!err) {
		s->fd = s->id->channel->fd;
		if (fcntl(s->fd, F_SETFL, O_NONBLOCK))
			err = errno;
	}
	err = err ? err : add(s);
	if (err) {
		if (id)
			s->id = NULL; /* the caller's still */
		destroy(s);
		return err;
	}
	*out = s;
	return 0;
}
