// SPDX-License-Identifier: MIT
#include "hca/flow.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "hca/alive.h"
#include "hca/flow_counters.h"
#include "hca/limits.h"
#include "obs/explain.h"
#include "util/fork.h"
#include "util/mutex.h"
#include "util/quiesce.h"

struct flow { /* frozen once it is in the table */
	struct ibv_flow ib; /* first */
	struct flow_table *table;
	struct qp *qp;
	uint32_t epoch;
	enum ibv_flow_attr_type type;
	uint16_t priority;
	bool go_on; /* DONT_TRAP */
	struct flow_actions actions;
	unsigned int n;
	struct flow_match match[];
};

struct rules { /* sorted: by type, then priority, then age */
	unsigned int n;
	struct flow *rule[];
};

struct flow_table {
	struct mutex lock;
	struct rules *rules; /* loaded with acquire (A); NULL: none */
	uint32_t next_handle;
	void (*changed)(void *arg, bool any);
	void *arg;
};

int flow_table_create(void (*changed)(void *arg, bool any), void *arg, struct flow_table **out)
{
	struct flow_table *t = calloc(1, sizeof(*t));

	if (!t)
		return ENOMEM;
	mutex_init(&t->lock);
	t->changed = changed;
	t->arg = arg;
	*out = t;
	return 0;
}

void flow_table_destroy(struct flow_table *t)
{
	if (!t)
		return;
	free(t->rules);
	free(t);
}

static int check(const struct qp *qp, const struct ibv_flow_attr *a)
{
	if (!fork_is_ours(qp->epoch))
		return refuse(EIO,
			      "ibv_create_flow: QP 0x%x was made before fork(); make one in the "
			      "child",
			      qp->qpn);
	if (!qp->service->steered)
		return refuse(EINVAL,
			      "ibv_create_flow: QP 0x%x is %s; frames are steered to RAW_PACKET "
			      "and UD QPs",
			      qp->qpn, qp->service->name);
	if (a->comp_mask)
		return refuse(EINVAL, "ibv_create_flow: comp_mask 0x%x, nothing is defined; pass 0",
			      a->comp_mask);
	if (a->port != 1)
		return refuse(EINVAL, "ibv_create_flow: port %u; there is one port, number 1",
			      a->port);
	if ((unsigned int)a->type > IBV_FLOW_ATTR_SNIFFER)
		return refuse(EINVAL,
			      "ibv_create_flow: type %d is not one of 0..%d; use one of enum "
			      "ibv_flow_attr_type",
			      (int)a->type, IBV_FLOW_ATTR_SNIFFER);
	if (a->flags & IBV_FLOW_ATTR_FLAGS_EGRESS)
		return refuse(EOPNOTSUPP, "ibv_create_flow: frames that are sent are not matched; "
					  "leave IBV_FLOW_ATTR_FLAGS_EGRESS out");
	if (a->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP)
		return refuse(EINVAL, "ibv_create_flow: flags 0x%x are not known; leave them out",
			      a->flags);
	if (a->flags && a->type != IBV_FLOW_ATTR_NORMAL)
		return refuse(EINVAL, "ibv_create_flow: only rules of type IBV_FLOW_ATTR_NORMAL "
				      "take IBV_FLOW_ATTR_FLAGS_DONT_TRAP; leave it out");
	return 0;
}

static int make(struct flow_table *t, struct qp *qp, const struct ibv_flow_attr *a,
		struct flow **out)
{
	struct flow_specs specs;
	struct flow *f;
	int err = flow_specs_read(a, &specs);

	if (!err) /* it comes in a spec, so the caller could not look */
		err = alive_of(&qp->ctx->ib.context, ALIVE_COUNTERS, specs.actions.counters,
			       "ibv_create_flow");
	if (err)
		return err;
	if (specs.n && a->type != IBV_FLOW_ATTR_NORMAL)
		return refuse(EINVAL,
			      "ibv_create_flow: a rule of type %d takes frames whatever they are; "
			      "leave its %u specs out",
			      (int)a->type, specs.n);
	f = malloc(sizeof(*f) + specs.n * sizeof(f->match[0]));
	if (!f)
		return refuse(ENOMEM, "ibv_create_flow: no memory; raise the limit (ulimit -v)");
	*f = (struct flow){
		.ib.context = &qp->ctx->ib.context,
		.table = t,
		.qp = qp,
		.epoch = fork_epoch(),
		.type = a->type,
		.priority = a->priority,
		.go_on = a->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP,
		.actions = specs.actions,
		.n = specs.n,
	};
	memcpy(f->match, specs.match, specs.n * sizeof(f->match[0]));
	*out = f;
	return 0;
}

/* Sniffers first, then NORMAL, MC_DEFAULT, ALL_DEFAULT. */
static unsigned int rank(const struct flow *f)
{
	static const uint8_t ranks[] = { [IBV_FLOW_ATTR_SNIFFER] = 0,
					 [IBV_FLOW_ATTR_NORMAL] = 1,
					 [IBV_FLOW_ATTR_MC_DEFAULT] = 2,
					 [IBV_FLOW_ATTR_ALL_DEFAULT] = 3 };

	return (unsigned int)ranks[f->type] << 16 | f->priority;
}

/* A copy of @old with room for one rule more. Under the lock. */
static struct rules *copy(const struct rules *old, unsigned int more)
{
	unsigned int n = old ? old->n : 0;
	struct rules *r = malloc(sizeof(*r) + (n + more) * sizeof(r->rule[0]));

	if (!r)
		return NULL;
	r->n = n;
	if (n)
		memcpy(r->rule, old->rule, n * sizeof(r->rule[0]));
	return r;
}

static int insert(struct flow_table *t, struct flow *f, struct rules **old)
{
	struct rules *r;
	unsigned int i;

	*old = t->rules;
	if (*old && (*old)->n == LIMIT_FLOWS)
		return refuse(ENOMEM,
			      "ibv_create_flow: all %d rules that a process may have are in use; "
			      "destroy some first",
			      LIMIT_FLOWS);
	r = copy(*old, 1);
	if (!r)
		return refuse(ENOMEM, "ibv_create_flow: no memory; raise the limit (ulimit -v)");
	for (i = r->n++; i && rank(r->rule[i - 1]) > rank(f); i--)
		r->rule[i] = r->rule[i - 1];
	r->rule[i] = f;
	f->ib.handle = t->next_handle++;
	store_release(&t->rules, r); /* (A) */
	return 0;
}

int flow_create(struct flow_table *t, struct qp *qp, const struct ibv_flow_attr *attr,
		struct ibv_flow **out)
{
	struct rules *old;
	struct flow *f;
	int err = check(qp, attr);

	err = err ? err : make(t, qp, attr, &f);
	if (err)
		return err;
	fetch_add_relaxed(&qp->flows, 1);
	flow_counters_get(f->actions.counters);
	mutex_lock(&t->lock);
	err = insert(t, f, &old);
	mutex_unlock(&t->lock);
	if (err) {
		flow_counters_put(f->actions.counters);
		fetch_sub_acq_rel(&qp->flows, 1);
		free(f);
		return err;
	}
	if (old) {
		quiesce_wait();
		free(old);
	} else {
		t->changed(t->arg, true);
	}
	*out = &f->ib;
	return 0;
}

/* ENOENT: the rule is not in the table. */
static int take_out(struct flow_table *t, const struct flow *f, struct rules **old)
{
	struct rules *r = NULL;
	unsigned int i = 0, n;

	*old = t->rules;
	n = *old ? (*old)->n : 0;
	while (i < n && (*old)->rule[i] != f)
		i++;
	if (i == n)
		return refuse(EINVAL, "ibv_destroy_flow: the flow is not a rule of this device; "
				      "destroy each once");
	if (n > 1) {
		r = copy(*old, 0);
		if (!r)
			return refuse(ENOMEM,
				      "ibv_destroy_flow: no memory; raise the limit (ulimit -v)");
		memmove(&r->rule[i], &r->rule[i + 1], (n - i - 1) * sizeof(r->rule[0]));
		r->n--;
	}
	store_release(&t->rules, r); /* (A) */
	return 0;
}

int flow_destroy(struct ibv_flow *ib)
{
	struct flow *f = (struct flow *)ib;
	struct flow_table *t = f->table;
	struct rules *old;
	int err;

	if (!fork_is_ours(f->epoch)) {
		flow_counters_put(f->actions.counters);
		free(f);
		return 0;
	}
	mutex_lock(&t->lock);
	err = take_out(t, f, &old);
	mutex_unlock(&t->lock);
	if (err)
		return err;
	quiesce_wait();
	if (old->n == 1)
		t->changed(t->arg, false);
	free(old);
	flow_counters_put(f->actions.counters);
	fetch_sub_acq_rel(&f->qp->flows, 1);
	free(f);
	return 0;
}

/* --- lookup --- */

struct steering {
	const struct rules *rules;
	const struct frame *frame;
	void (*fn)(void *arg, const struct flow_hit *hit);
	void *arg;
	unsigned int hits;
};

static void hit(struct steering *s, const struct flow *f)
{
	struct flow_hit h = { f->qp, f->qp->qpn, f->actions.tag };

	if (f->actions.counters)
		flow_counters_add(f->actions.counters, s->frame->len);
	if (f->actions.drop)
		return;
	s->fn(s->arg, &h);
	s->hits++;
}

static bool same_specs(const struct flow *a, const struct flow *b)
{
	return a->type == b->type && a->priority == b->priority && a->n == b->n &&
	       !memcmp(a->match, b->match, a->n * sizeof(a->match[0]));
}

/* All rules of @type, from @i on. */
static unsigned int all_of(struct steering *s, enum ibv_flow_attr_type type, unsigned int i)
{
	const struct rules *r = s->rules;

	for (; i < r->n && r->rule[i]->type == type; i++)
		hit(s, r->rule[i]);
	return i;
}

static unsigned int skip(const struct rules *r, enum ibv_flow_attr_type type, unsigned int i)
{
	while (i < r->n && r->rule[i]->type == type)
		i++;
	return i;
}

/* The rule at @i has matched: it and the rules with the same specs get the frame. False: the search
 * goes on behind them. */
static bool trapped(struct steering *s, unsigned int i)
{
	const struct rules *r = s->rules;
	const struct flow *first = r->rule[i];

	hit(s, first);
	if (first->go_on)
		return false;
	for (i++; i < r->n && r->rule[i]->priority == first->priority; i++)
		if (same_specs(r->rule[i], first))
			hit(s, r->rule[i]);
	return true;
}

/* True: a rule took the frame. *@at: index behind the NORMAL rules. */
static bool normal(struct steering *s, unsigned int *at)
{
	const struct rules *r = s->rules;
	bool taken = false;
	unsigned int i = *at;

	for (; i < r->n && r->rule[i]->type == IBV_FLOW_ATTR_NORMAL && !taken; i++)
		if (flow_specs_match(r->rule[i]->match, r->rule[i]->n, s->frame))
			taken = trapped(s, i);
	*at = skip(r, IBV_FLOW_ATTR_NORMAL, i);
	return taken;
}

unsigned int flow_steer(struct flow_table *t, const struct frame *f,
			void (*fn)(void *arg, const struct flow_hit *hit), void *arg)
{
	struct steering s = { load_acquire(&t->rules), f, fn, arg, 0 }; /* (A) */
	unsigned int i, behind;

	if (!s.rules)
		return 0;
	i = all_of(&s, IBV_FLOW_ATTR_SNIFFER, 0);
	if (normal(&s, &i))
		return s.hits;
	behind = skip(s.rules, IBV_FLOW_ATTR_MC_DEFAULT, i);
	if (frame_is_multicast(f) && behind != i)
		all_of(&s, IBV_FLOW_ATTR_MC_DEFAULT, i);
	else
		all_of(&s, IBV_FLOW_ATTR_ALL_DEFAULT, behind);
	return s.hits;
}
