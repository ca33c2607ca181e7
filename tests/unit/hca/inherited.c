// SPDX-License-Identifier: MIT
/* What a forked child may do with its parent's objects: destroy its copies, and make new ones on
 * the inherited context. The parent notices nothing. */
#include "fixture.h"
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>
#include "hca/ah.h"
#include "hca/async.h"
#include "hca/mr.h"
#include "hca/qp.h"
#include "util/quiesce.h"

struct objects {
	struct fixture *f;
	struct mr *mr;
	struct ah *ah;
	struct comp_channel *ch;
	struct cq *cq;
	struct srq *srq;
	struct qp qp;
	uint8_t buf[64];
	struct hca counts; /* the parent's, before the child ran */
};

static const struct ibv_ah_attr path = {
	.is_global = 1,
	.port_num = 1,
	.grh = { .dgid.raw = { 0xfe, 0x80 }, .sgid_index = 1 },
};

static void make(struct objects *o)
{
	struct cq_attr attr = { .user = o };

	memset(o, 0, sizeof(*o));
	o->f = fixture_open(16);
	check_eq(mr_create(o->f->pd, &(struct mr_attr){ o->buf, 64, (uintptr_t)o->buf, 1 }, &o->mr),
		 0);
	check_eq(ah_create(o->f->pd, &path, &o->ah), 0);
	check_eq(comp_channel_create(o->f->ctx, &o->ch), 0);
	attr.channel = o->ch;
	check_eq(cq_create(o->f->ctx, &attr, &o->cq), 0);
	check_eq(srq_create(o->f->pd, &(struct srq_attr){ .max_wr = 1 }, &o->srq), 0);
	check_eq(qp_init(&o->qp, o->f->pd,
			 &(struct qp_attr){ .service = &services[SERVICE_UD],
					    .scq = o->cq,
					    .rcq = o->cq,
					    .srq = o->srq },
			 7),
		 0);
	o->counts = o->f->hca;
}

static void destroy(struct objects *o)
{
	qp_fini(&o->qp);
	check_eq(srq_destroy(o->srq), 0);
	check_eq(cq_destroy(o->cq), 0);
	check_eq(comp_channel_destroy(o->ch), 0);
	check_eq(ah_destroy(o->ah), 0);
	check_eq(mr_destroy(o->mr), 0);
}

/* Runs @fn in a child; true when all its checks held. A failed check there ends it by _exit(). */
#define child_check(cond)                                                                          \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                 \
			_exit(1);                                                                  \
		}                                                                                  \
	} while (0)

static void run(struct objects *o, void (*fn)(struct objects *o))
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		fn(o);
		_exit(0);
	}
	check_eq(waitpid(pid, &status, 0), pid);
	check_eq(status, 0);
}

static void use_inherited(struct objects *o)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	union ibv_gid gid = { .raw = { 0xff } };
	bool joined = false;
	struct ibv_cq *cq;
	struct mr *mr;
	struct ah *ah;

	child_check(mr_create(o->f->pd, &(struct mr_attr){ o->buf, 1, (uintptr_t)o->buf, 0 },
			      &mr) == EIO);
	child_check(mr_rereg(o->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, &(struct mr_attr){ 0 }) ==
		    IBV_REREG_MR_ERR_CMD);
	child_check(errno == EIO);
	child_check(ah_create(o->f->pd, &path, &ah) == EIO);
	child_check(comp_channel_pop(o->ch, &cq) == EIO);
	child_check(srq_set_limit(o->srq, 1) == EIO);
	child_check(qp_modify(&o->qp, &reset, IBV_QP_STATE) == EIO);
	child_check(mcast_attach(o->f->hca.mcast, &o->qp, &gid, &joined) == EIO);
}

TEST(using_an_inherited_object_is_refused)
{
	struct objects o;

	make(&o);
	run(&o, use_inherited);
	destroy(&o);
	fixture_close(o.f);
}

static void destroy_inherited(struct objects *o)
{
	struct fixture *f = o->f;

	destroy(o);
	child_check(!memcmp(&f->hca.count, &o->counts.count, sizeof(f->hca.count)));
	child_check(pd_destroy(f->pd) == 0);
	context_destroy(f->ctx);
}

TEST(destroying_inherited_objects_touches_no_shared_table)
{
	struct key_ask a = { .len = 1 };
	struct objects o;
	uint64_t addr;

	make(&o);
	run(&o, destroy_inherited);
	a.key = o.mr->ib.lkey;
	a.pdn = o.f->pd->pdn;
	a.va = (uintptr_t)o.buf;
	quiesce_enter();
	check_eq(key_check(o.f->hca.keys, &a, &addr), KEY_OK);
	quiesce_exit();
	destroy(&o);
	fixture_close(o.f);
}

static int renew(const struct hca *old, struct hca **out)
{
	int err = fork_init();

	*out = calloc(1, sizeof(**out));
	(*out)->epoch = fork_epoch();
	(*out)->ports = old->ports;
	(*out)->ports_arg = old->ports_arg;
	return err ? err : key_table_create(NULL, 16, &(*out)->keys);
}

static void make_new(struct objects *o)
{
	struct context *ctx = o->f->ctx;
	int fd = ctx->ib.context.async_fd;
	struct ibv_async_event ev;
	struct pd *pd;
	struct mr *mr;

	child_check(!pd_create(ctx, &pd));
	child_check(pd->pdn != o->f->pd->pdn);
	child_check(!mr_create(pd, &(struct mr_attr){ o->buf, 64, (uintptr_t)o->buf, 1 }, &mr));
	child_check(ctx->hca != &o->f->hca && ctx->hca->count.mr == 1 && o->f->hca.count.mr == 1);
	child_check(ctx->ib.context.async_fd == fd);
	device_event(ctx->hca, IBV_EVENT_GID_CHANGE);
	child_check(!async_pop(ctx, &ev) && ev.event_type == IBV_EVENT_GID_CHANGE);
	async_push(ctx, IBV_EVENT_GID_CHANGE, NULL); /* left for the parent to see, if it could */
	child_check(!mr_destroy(mr) && !pd_destroy(pd));
	destroy(o);
}

TEST(new_objects_on_an_inherited_context_are_the_childs_own)
{
	struct pollfd p = { .events = POLLIN };
	struct ibv_async_event ev;
	struct objects o;

	make(&o);
	o.f->hca.renew = renew;
	run(&o, make_new);
	p.fd = o.f->ctx->ib.context.async_fd;
	check_eq(poll(&p, 1, 0), 0);
	check_eq(async_pop(o.f->ctx, &ev), EAGAIN);
	destroy(&o);
	fixture_close(o.f);
}

static void refused(struct objects *o)
{
	struct pd *pd;

	child_check(pd_create(o->f->ctx, &pd) == EIO);
}

TEST(a_device_that_cannot_be_renewed_refuses)
{
	struct objects o;

	make(&o);
	run(&o, refused);
	destroy(&o);
	fixture_close(o.f);
}

RUN_TESTS(unit_test(using_an_inherited_object_is_refused),
	  unit_test(destroying_inherited_objects_touches_no_shared_table),
	  unit_test(new_objects_on_an_inherited_context_are_the_childs_own),
	  unit_test(a_device_that_cannot_be_renewed_refuses))
