// SPDX-License-Identifier: MIT
/* Every control verb with an object that is not what it takes: one that has ended, a pointer to
 * nowhere, another kind of object, one whose members handle or context were changed, one of
 * another context. Each is an error, as a kernel's look-up of a handle, and no stale object is
 * read: the garbled pointer leads to no memory, and a sanitizer watches the freed ones. Calls that
 * verbs.h makes inline are called by the context's table, since the inline part does read them. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "verbs/handles_calls.h"
#include "verbs/said.h"

static struct side far;

static void refused(const struct handles_row *r, void *obj, int err, const char *why)
{
	peer_note("%s, %s", r->name, why);
	want_errno(r->fn(obj), err);
}

static void ended(const struct handles_row *r)
{
	void *obj = handles_make(&near, r->kind);
	int absent = handles_kinds[r->kind].absent;

	want(obj);
	want_eq(handles_end[r->kind](obj), 0);
	refused(r, obj, absent, "ended");
	said_want(SAID_NEAR,
		  "%s: the %s at %p is not alive: it was %s already (%s); forget the pointer when "
		  "the object ends",
		  r->call, handles_kinds[r->kind].name, obj, handles_kinds[r->kind].ended,
		  handles_kinds[r->kind].number);
}

static void garbled(const struct handles_row *r)
{
	uint8_t *page =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	want(page != MAP_FAILED);
	peer_unmap(page, 4096);
	refused(r, page + 64, handles_kinds[r->kind].absent, "garbled");
}

static void another_kind(const struct handles_row *r)
{
	void *obj = handles_make(&near, r->kind == PD ? CQ : PD);

	refused(r, obj, EINVAL, "another kind");
	want_eq(handles_end[r->kind == PD ? CQ : PD](obj), 0);
}

static void changed(const struct handles_row *r)
{
	char *obj = handles_make(&near, r->kind);
	size_t handle = handles_kinds[r->kind].handle, context = handles_kinds[r->kind].context;

	if (handle) {
		*(uint32_t *)(obj + handle) ^= 0x100;
		refused(r, obj, ENOENT, "handle changed");
		*(uint32_t *)(obj + handle) ^= 0x100;
	}
	memcpy(obj + context, &far.dev.ctx, sizeof(void *));
	refused(r, obj, handles_kinds[r->kind].absent, "context changed");
	memcpy(obj + context, &near.dev.ctx, sizeof(void *));
	peer_note("%s, and then it ends", r->name);
	want_eq(handles_end[r->kind](obj), 0);
}

static void of_another_context(const struct handles_row *r)
{
	void *obj = handles_make(&far, r->kind);

	want(obj);
	refused(r, obj, EINVAL, "of another context");
	want_eq(handles_end[r->kind](obj), 0);
}

static void row(int arg)
{
	const struct handles_row *r = &handles_rows[arg];

	said_begin();
	handles_open(&near);
	handles_open(&far);
	ended(r);
	garbled(r);
	another_kind(r);
	if (r->kind != CONTEXT)
		changed(r);
	if (r->beside)
		of_another_context(r);
}

/* --- beside the table --- */

/* Memory that is used again belongs to the new object, of whatever kind. */
static void memory_used_again(int arg)
{
	struct ibv_ah *ah;

	(void)arg;
	handles_open(&near);
	for (int i = 0; i < 1000; i++) {
		ah = handles_make(&near, AH);
		want(ah);
		want_eq(ibv_destroy_ah(ah), 0);
	}
	want_errno(ibv_destroy_ah(ah), ENOENT);
	ah = handles_make(&near, AH);
	want_eq(ibv_destroy_ah(ah), 0);
}

/* A destroy that is refused changes nothing. */
static void refused_destroy(int arg)
{
	(void)arg;
	handles_open(&near);
	want_errno(ibv_destroy_cq(near.cq), EBUSY);
	want_errno(ibv_dealloc_pd(near.dev.pd), EBUSY);
	want_eq(ibv_resize_cq(near.cq, 8), 0);
	want_eq(ibv_destroy_qp(near.qp), 0);
	want_eq(ibv_destroy_wq(near.wq), 0);
	want_eq(ibv_destroy_cq(near.cq), 0);
	want_errno(ibv_destroy_cq(near.cq), ENOENT);
}

/* What a child has inherited ends there once, and the parent's stays. */
static void forked(int arg)
{
	struct ibv_mr *mr;
	pid_t pid;

	(void)arg;
	handles_open(&near);
	mr = handles_make(&near, MR);
	pid = fork();
	if (!pid) {
		bool good = !ibv_dereg_mr(mr) && ibv_dereg_mr(mr) == ENOENT;

		_exit(good ? 0 : 1);
	}
	want_eq(peer_wait(pid), 0);
	want_eq(ibv_dereg_mr(mr), 0);
	want_eq(ibv_dereg_mr(mr), ENOENT);
}

static void *refused_dealloc(void *pd)
{
	for (int i = 0; i < 20000; i++)
		if (ibv_dealloc_pd(pd) != EBUSY)
			return pd;
	return NULL;
}

/* Nor does it while it is under way. */
static void refused_destroy_of_a_thread(int arg)
{
	pthread_t thread;
	void *failed;

	(void)arg;
	handles_open(&near);
	want_eq(pthread_create(&thread, NULL, refused_dealloc, near.dev.pd), 0);
	for (int i = 0; i < 20000; i++) {
		struct ibv_mr *one = ibv_reg_mr(near.dev.pd, &near, 1, 0);

		want(one);
		want_eq(ibv_dereg_mr(one), 0);
	}
	want_eq(pthread_join(thread, &failed), 0);
	want(!failed);
}

static struct ibv_cq *contested[1000];
static pthread_barrier_t barrier;

static void *destroyer(void *arg)
{
	long done = 0;

	(void)arg;
	for (int i = 0; i < 1000; i++) {
		pthread_barrier_wait(&barrier);
		switch (ibv_destroy_cq(contested[i])) {
		case 0:
			done++;
			break;
		case ENOENT:
		case EBUSY:
			break;
		default:
			return NULL;
		}
	}
	return (void *)done;
}

/* Of two threads that destroy the same object, one does. */
static void destroyed_by_two(int arg)
{
	pthread_t thread[2];
	long done = 0;

	(void)arg;
	handles_open(&near);
	for (int i = 0; i < 1000; i++)
		contested[i] = handles_make(&near, CQ);
	want_eq(pthread_barrier_init(&barrier, NULL, 2), 0);
	for (int i = 0; i < 2; i++)
		want_eq(pthread_create(&thread[i], NULL, destroyer, NULL), 0);
	for (int i = 0; i < 2; i++) {
		void *n;

		want_eq(pthread_join(thread[i], &n), 0);
		done += (long)n;
	}
	want_eq(done, 1000);
}

/* Other threads make and end objects when the process forks: the child's table is whole. */
static void *maker(void *stop)
{
	while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED))
		want_eq(ibv_destroy_ah(handles_make(&near, AH)), 0);
	return NULL;
}

static void forked_among_threads(int arg)
{
	bool stop = false;
	pthread_t thread;

	(void)arg;
	handles_open(&near);
	want_eq(pthread_create(&thread, NULL, maker, &stop), 0);
	for (int i = 0; i < 50; i++) {
		pid_t pid = fork();

		if (!pid) {
			alarm(20);
			_exit(ibv_destroy_ah((struct ibv_ah *)&near) == ENOENT &&
					      !ibv_dereg_mr(near.mr)
				      ? 0
				      : 1);
		}
		want_eq(peer_wait(pid), 0);
	}
	__atomic_store_n(&stop, true, __ATOMIC_RELAXED);
	want_eq(pthread_join(thread, NULL), 0);
}

int main(void)
{
	static const struct test_case others[] = {
		CASE(memory_used_again),
		CASE(refused_destroy),
		CASE(forked),
		CASE(destroyed_by_two),
		CASE(forked_among_threads),
		CASE(refused_destroy_of_a_thread),
	};
	enum { OTHERS = sizeof(others) / sizeof(others[0]) };
	struct test_case all[128];

	for (unsigned int i = 0; i < handles_n; i++)
		all[i] = (struct test_case){ handles_rows[i].name, row, (int)i };
	want(handles_n + OTHERS <= sizeof(all) / sizeof(all[0]));
	memcpy(all + handles_n, others, sizeof(others));
	return cases_run(all, handles_n + OTHERS);
}
