// SPDX-License-Identifier: MIT
#include "xrc/xrc_domain.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "obs/explain.h"
#include "peers/host_names.h"
#include "peers/host_page.h"
#include "peers/meeting.h"
#include "util/fork.h"
#include "util/mutex.h"
#include "util/sealed.h"
#include "xrc/xrc_half.h"
#include "xrc/xrc_member.h"

enum { DOMAIN_NAME = 72 }; /* bytes of its name at the meeting point, with the final 0 */

#define EXISTS                                                                                     \
	"ibv_open_xrcd: the file has an XRC domain, and O_EXCL says that it must not; leave it "   \
	"out"

static void domain_free(struct xrc_domain *d)
{
	if (!d)
		return;
	meeting_leave(d->meeting);
	if (d->page)
		munmap(d->page, xrc_page_bytes());
	if (d->file >= 0)
		close(d->file);
	if (d->fd >= 0)
		close(d->fd);
	if (d->ctx)
		context_put(d->ctx);
	mutex_destroy(&d->lock);
	free(d);
}

static struct xrc_domain *domain_new(struct context *ctx)
{
	struct xrc_domain *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->node = node_self();
	d->ctx = ctx;
	d->file = d->fd = -1;
	mutex_init(&d->lock);
	context_get(ctx);
	return d;
}

static int private_page(struct xrc_domain *d)
{
	void *p = mmap(NULL, xrc_page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		return refuse(ENOMEM,
			      "ibv_open_xrcd: no memory for %zu B of an XRC domain; raise the "
			      "limit (ulimit -v)",
			      xrc_page_bytes());
	d->page = p;
	return 0;
}

static int open_anonymous(struct context *ctx, struct xrc_domain **out)
{
	struct xrc_domain *d = domain_new(ctx);
	int err = d ? 0 : refuse_memory("ibv_open_xrcd", sizeof(*d));

	if (!err) {
		d->anonymous = true;
		err = private_page(d);
	}
	if (!err)
		err = xrc_member_enlist(d);
	if (err) {
		domain_free(d);
		return err;
	}
	*out = d;
	return 0;
}

/* The name of the file's domain at the meeting point. */
static void domain_name(const struct xrc_domain *d, char *buf, size_t n)
{
	snprintf(buf, n, "xrcd.%.24s.%jx.%jx", d->ctx->hca->name, (uintmax_t)d->dev,
		 (uintmax_t)d->ino);
}

/* Abstract names have no owner: another user may have taken them. */
static int refuse_doors(const char *name, uint32_t uid)
{
	char who[40] = "who do not listen";

	if (uid != HOST_NAMES_ALL)
		snprintf(who, sizeof(who), "such as user id %u", uid);
	return refuse(EADDRINUSE,
		      "ibv_open_xrcd: other users, %s, have all %d names by which a process comes "
		      "to the file's XRC domain (softhca.%d.*.%s.new.*); have processes ended, or "
		      "use another network namespace",
		      who, MEETING_DOORS, HOST_LAYOUT, name);
}

static int refuse_member(const struct xrc_domain *d, uint32_t uid)
{
	char name[DOMAIN_NAME], who[48] = "another user, who does not listen,";

	domain_name(d, name, sizeof(name));
	if (uid != HOST_NAMES_ALL)
		snprintf(who, sizeof(who), "user id %u", uid);
	return refuse(
		EADDRINUSE,
		"ibv_open_xrcd: %s has the name of this process in the file's XRC domain "
		"(softhca.%d.*.%s.%u); have that user's process ended, or use another network "
		"namespace",
		who, HOST_LAYOUT, name, host_first_slot(d->node->host));
}

static int refuse_entry(int err, const char *domain, const struct meeting_other *who)
{
	char name[32] = "another process";

	if (err == EADDRINUSE)
		return refuse_doors(domain, who->uid);
	if (err != ETIMEDOUT)
		return refuse(err,
			      "ibv_open_xrcd: the XRC domain's socket cannot be made (error %d); "
			      "are there too many open files?",
			      err);
	if (who->pid)
		snprintf(name, sizeof(name), "process %d", who->pid);
	if (who->door)
		return refuse(err,
			      "ibv_open_xrcd: %s has been opening the file's XRC domain for "
			      "seconds; let it go on (is it stopped?)",
			      name);
	return refuse(err,
		      "ibv_open_xrcd: %s, which has the file's XRC domain open, does not answer; "
		      "let it go on (is it stopped?)",
		      name);
}

static int enter(struct xrc_domain *d, int oflags)
{
	struct meeting_other who;
	char name[DOMAIN_NAME];
	int err;

	domain_name(d, name, sizeof(name));
	err = meeting_enter(d->node->host, name, &d->meeting, &d->fd, &who);
	if (err)
		return refuse_entry(err, name, &who);
	if (d->fd >= 0 && (oflags & O_EXCL))
		return refuse(EINVAL, EXISTS);
	if (d->fd < 0 && !(oflags & O_CREAT))
		return refuse(EAGAIN, "ibv_open_xrcd: the file has no XRC domain, and O_CREAT is "
				      "not set; set it, or let another process make it first");
	return 0;
}

static int share(struct xrc_domain *d)
{
	struct meeting_other who;
	void *page = NULL;
	int err = d->fd >= 0 ? sealed_map(d->fd, xrc_page_bytes(), true, &page)
			     : sealed_make("softhca-xrc", xrc_page_bytes(), SEALED_SPARSE, &d->fd,
					   &page);

	if (err)
		return refuse(err,
			      "ibv_open_xrcd: no memory for %zu B of an XRC domain, or another "
			      "process gave what is none; raise the limit (ulimit -v)",
			      xrc_page_bytes());
	d->page = page;
	err = xrc_member_lock(d);
	if (err)
		return err;
	err = xrc_member_enlist(d);
	xrc_member_unlock(d);
	if (err)
		return err;
	err = meeting_begin(d->meeting, d->fd, &who);
	if (err == EADDRINUSE)
		return refuse_member(d, who.uid);
	if (err)
		err = refuse(ENOMEM,
			     "ibv_open_xrcd: the XRC domain's socket cannot be made; are there "
			     "too many open files?");
	return err;
}

/* The domain of the file @fd. */
static int open_shared(struct context *ctx, int fd, const struct stat *st, int oflags,
		       struct xrc_domain **out)
{
	struct xrc_domain *d = domain_new(ctx);
	int err;

	if (!d)
		return refuse_memory("ibv_open_xrcd", sizeof(*d));
	d->dev = st->st_dev;
	d->ino = st->st_ino;
	d->file = fcntl(fd, F_DUPFD_CLOEXEC, 3);
	err = enter(d, oflags);
	if (!err)
		err = share(d);
	if (err) {
		domain_free(d);
		return err;
	}
	*out = d;
	return 0;
}

static struct xrc_domain *find(struct node *n, const struct context *ctx, const struct stat *st)
{
	for (struct xrc_domain *d = n->xrc_domains; d; d = d->next)
		if (!d->anonymous && d->ctx->hca == ctx->hca && d->dev == st->st_dev &&
		    d->ino == st->st_ino)
			return d;
	return NULL;
}

static void list(struct xrc_domain *d)
{
	d->next = d->node->xrc_domains;
	store_release(&d->node->find_shared, xrc_half_find); /* pairs with shared_find() */
	store_release(&d->node->xrc_domains, d); /* pairs with xrc_half_find() */
}

static int open_locked(struct node *n, struct context *ctx, int fd, int oflags,
		       struct xrc_domain **out)
{
	struct stat st;
	int err;

	if (fd < -1 || (fd >= 0 && fstat(fd, &st)))
		return refuse(EBADF, "ibv_open_xrcd: fd %d is not open; give an open file's, or -1",
			      fd);
	*out = fd < 0 ? NULL : find(n, ctx, &st);
	if (*out && (oflags & O_EXCL))
		return refuse(EINVAL, EXISTS);
	if (*out)
		return 0;
	err = fd < 0 ? open_anonymous(ctx, out) : open_shared(ctx, fd, &st, oflags, out);
	if (!err)
		list(*out);
	return err;
}

/* The domain is off the list. */
static void domain_end(struct xrc_domain *d)
{
	quiesce_wait();
	for (uint32_t i = 0; i < XRC_TARGETS; i++)
		xrc_half_free(d->target[i]);
	domain_free(d);
}

static void unlist(struct xrc_domain *d)
{
	struct xrc_domain **p = &d->node->xrc_domains;

	while (*p != d)
		p = &(*p)->next;
	store_release(p, d->next);
}

static void unref(struct xrc_domain *d)
{
	if (--d->refs)
		return;
	unlist(d);
	domain_end(d);
}

int xrc_domain_open(struct context *ctx, int fd, int oflags, struct xrcd **out)
{
	struct xrc_domain *d = NULL;
	struct node *n;
	int err = context_use(ctx, "ibv_open_xrcd");

	if (err)
		return err;
	n = node_self();
	if (!n)
		return refuse(EIO, "ibv_open_xrcd: the device was opened before fork(); open it in "
				   "the child");
	mutex_lock(&n->xrc_lock);
	err = open_locked(n, ctx, fd, oflags, &d);
	if (!err) {
		d->refs++;
		err = xrcd_create(ctx, d, out);
		if (err)
			unref(d);
	}
	mutex_unlock(&n->xrc_lock);
	return err;
}

int xrc_domain_close(struct xrcd *x)
{
	struct xrc_domain *d = x->domain;
	struct node *n = d->node;
	int err = xrcd_idle(x);

	if (err)
		return err;
	if (!fork_is_ours(x->epoch)) {
		xrcd_free(x);
		return 0;
	}
	/* Until its locks are gone: whoever opens the file again has the same ones, and closing a
	 * descriptor gives back all of a process. */
	mutex_lock(&n->xrc_lock);
	unref(d);
	mutex_unlock(&n->xrc_lock);
	xrcd_free(x);
	return 0;
}
