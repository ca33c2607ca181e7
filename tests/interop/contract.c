// SPDX-License-Identifier: MIT
/* contract IPV4 IPV6 [slowly [PART]]: prints what each call answers in each state of each kind of
 * id, the events that follow with all their fields, and the attributes of queue pairs; then what
 * depends on no state. Both addresses are those of one device of this machine. Lines: "KIND CALL:
 * ANSWER | EVENTS : STATES that answer so", "WHAT it is about: ANSWER". Linux 6.12 can need minutes
 * for ids that end while hundreds of others are at work (cm_destroy_id_wait_timeout in its log):
 * there, slowly, one part after the other. PART: the name of a kind, rules, names, endpoints or
 * flows, which runs alone. */
#include "contract.h"
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS_MAX = 64, QUIET_MS = 1000 };

const char *const state_names[STATES] = { "new",      "bound",	"listening", "resolved",
					  "routed",   "asked",	"requested", "accepting",
					  "answered", "open",	"accepted",  "leaving",
					  "left",     "closed", "rejecting", "rejected",
					  "joined" };

static const struct kind kinds[] = {
	{ "plain", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = false },
	{ "queued", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = true },
	{ "datagram", RDMA_PS_UDP, IBV_QPT_UD, .has_qp = false },
	{ "datagram-queued", RDMA_PS_UDP, IBV_QPT_UD, .has_qp = true },
	{ "sync", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = true, .sync = true },
	{ "datagram-sync", RDMA_PS_UDP, IBV_QPT_UD, .has_qp = true, .sync = true },
	{ "xrc", RDMA_PS_IB, IBV_QPT_XRC_SEND, .has_qp = false, .xrc = true },
	{ "ib", RDMA_PS_IB, IBV_QPT_RC, .has_qp = true, .looks_only = true },
	{ "v6", RDMA_PS_TCP, IBV_QPT_RC, .has_qp = true, .v6 = true, .looks_only = true },
	{ "datagram-v6", RDMA_PS_UDP, IBV_QPT_UD, .has_qp = true, .v6 = true, .looks_only = true },
};

static union address own4, own6;

/* --- what all parts use --- */

void must(bool ok, const char *what)
{
	if (ok)
		return;
	fprintf(stderr, "contract: %s: %s\n", what, strerror(errno));
	exit(1);
}

const char *errno_name(int err)
{
	return err ? strerrorname_np(err) ? strerrorname_np(err) : "unnamed" : "0";
}

union address own_address(bool v6, in_port_t port)
{
	union address a = v6 ? own6 : own4;

	*(v6 ? &a.in6.sin6_port : &a.in.sin_port) = port;
	return a;
}

union address group_address(bool v6)
{
	union address a = { .in = { .sin_family = AF_INET } };

	if (v6)
		a.in6.sin6_family = AF_INET6;
	must(inet_pton(a.sa.sa_family, v6 ? "ff0e::77" : "239.7.7.7",
		       v6 ? (void *)&a.in6.sin6_addr : (void *)&a.in.sin_addr) == 1,
	     "inet_pton");
	return a;
}

in_port_t listener_port(const struct crew *c)
{
	return c->id[LISTENER] ? rdma_get_src_port(c->id[LISTENER]) : htons(9);
}

struct rdma_conn_param usual_param(struct crew *c, const struct rdma_cm_id *id)
{
	static uint32_t given;
	enum side side = id == c->id[ACTIVE] ? ACTIVE : id == c->id[PASSIVE] ? PASSIVE : LISTENER;

	if (!given) /* Linux may take a number for one that another part has used */
		given = (uint32_t)(getpid() % 2048 + 1) << 12;
	c->given[side] = ++given;
	return (struct rdma_conn_param){ .private_data = "of an end",
					 .private_data_len = 9,
					 .responder_resources = 3,
					 .initiator_depth = 2,
					 .flow_control = 1,
					 .retry_count = 5,
					 .rnr_retry_count = 6,
					 .qp_num = given };
}

/* --- a kind of ids --- */

struct table {
	struct crew crews[CALLS_MAX][STATES];
	bool there[CALLS_MAX][STATES];
};

/* What a synchronous id has got. */
static void say_kept(struct crew *c)
{
	struct rdma_cm_id *id = c->id[c->subject];

	if (!id)
		return;
	c->where = "kept";
	if (id->event)
		say_event(c, id->event);
	never_wait(id->channel);
}

static void call(struct crew *c, const struct call *k)
{
	struct rdma_cm_id *id = c->id[c->subject];
	int ret;

	if (c->kind->sync)
		must(!rdma_migrate_id(id, NULL), "rdma_migrate_id");
	if (c->kind->sync && k->waits)
		never_wait(id->channel);
	qp_states(c, c->qps, sizeof(c->qps));
	errno = 0;
	ret = k->make(c, id);
	fprintf(c->out, "%s", ret ? errno_name(errno) : "0");
	if (ret && ret != -1)
		fprintf(c->out, " by %d", ret);
	if (c->kind->sync)
		say_kept(c);
}

/* That of a synchronous id, which no other has. */
static struct rdma_event_channel *own_channel(const struct crew *c)
{
	const struct rdma_cm_id *id = c->id[c->subject];

	if (!id || id->channel == c->active || id->channel == c->passive || id->channel == c->other)
		return NULL;
	return id->channel;
}

/* True: there was one. */
static bool events_of(struct crew *c)
{
	static const char *const names[] = { "active", "passive", "other", "own" };
	struct rdma_event_channel *all[] = { c->active, c->passive, c->other, own_channel(c) };
	bool any = false;

	for (size_t i = 0; i < 4 && all[i]; i++) {
		struct pollfd p = { .fd = all[i]->fd, .events = POLLIN };

		while (poll(&p, 1, 0) == 1) {
			c->where = names[i];
			take_event(c, all[i]);
			any = true;
		}
	}
	return any;
}

static void collect(struct table *t)
{
	bool any;

	do {
		poll(NULL, 0, QUIET_MS); /* as much as all of them may need */
		any = false;
		for (int k = 0; k < CALLS_MAX; k++)
			for (int s = 0; s < STATES; s++)
				if (t->there[k][s])
					any |= events_of(&t->crews[k][s]);
	} while (any);
}

static void end(struct crew *c)
{
	char qps[sizeof(c->qps)];

	qp_states(c, qps, sizeof(qps));
	if (strcmp(qps, c->qps))
		fprintf(c->out, " | QPs%s", qps);
	for (int s = 0; s < SIDES; s++) {
		if (!c->id[s])
			continue;
		if (c->id[s]->qp)
			rdma_destroy_qp(c->id[s]);
		if (rdma_destroy_id(c->id[s]))
			fprintf(c->out, " | destroy %s", errno_name(errno));
	}
	rdma_destroy_event_channel(c->active);
	rdma_destroy_event_channel(c->passive);
	rdma_destroy_event_channel(c->other);
	fclose(c->out);
}

/* States that answer the same are one line. */
static void print(const struct kind *kind, const char *name, struct crew *crews, bool *there)
{
	for (int s = 0; s < STATES; s++) {
		if (!there[s])
			continue;
		printf("%s %s: %s :", kind->name, name, crews[s].text);
		for (int other = s; other < STATES; other++) {
			if (!there[other] || strcmp(crews[s].text, crews[other].text))
				continue;
			printf(" %s", state_names[other]);
			there[other] = other == s;
		}
		putchar('\n');
	}
}

/* What is the same for an id without a channel, or of another type, is not asked again. */
static bool tells_more(const struct call *k, const struct kind *kind)
{
	if (kind->sync)
		return k->waits || k->sync;
	return !kind->xrc || k->waits || k->typed;
}

static bool can(const struct call *k, const struct crew *c)
{
	const struct rdma_cm_id *id = c->id[c->subject];

	return (!k->needs_verbs || id->verbs) && (!k->needs_qp || id->qp);
}

static void look(const struct kind *kind)
{
	for (int s = 0; s < STATES; s++) {
		struct crew c = { .kind = kind, .tells = true };

		if (!state_exists(kind, s))
			continue;
		c.out = open_memstream(&c.text, &c.len);
		fprintf(c.out, "%s %s", kind->name, state_names[s]);
		reach(&c, s);
		say_id(&c, c.id[c.subject], "\n\tit");
		say_qp(&c, c.id[c.subject], "\n\tQP");
		qp_states(&c, c.qps, sizeof(c.qps));
		end(&c);
		puts(c.text);
	}
}

static void answers(const struct kind *kind)
{
	static struct table t;

	for (int k = 0; contract_calls[k].name; k++)
		for (int s = 0; s < STATES; s++) {
			struct crew *c = &t.crews[k][s];

			if (!state_exists(kind, s) || !tells_more(&contract_calls[k], kind))
				continue;
			*c = (struct crew){ .kind = kind };
			c->out = open_memstream(&c->text, &c->len);
			reach(c, s);
			c->tells = true;
			t.there[k][s] = can(&contract_calls[k], c);
			if (t.there[k][s])
				call(c, &contract_calls[k]);
			else
				end(c);
		}
	collect(&t);
	for (int k = 0; contract_calls[k].name; k++) {
		for (int s = 0; s < STATES; s++)
			if (t.there[k][s])
				end(&t.crews[k][s]);
		print(kind, contract_calls[k].name, t.crews[k], t.there[k]);
	}
}

static void rules(const struct kind *none)
{
	(void)none;
	say_rules();
}

static void names(const struct kind *none)
{
	(void)none;
	say_names();
}

static void endpoints(const struct kind *none)
{
	(void)none;
	say_endpoints();
}

static void flows(const struct kind *none)
{
	(void)none;
	say_flows();
}

/* A process of its own: nothing that one part leaves behind is seen by another. */
struct part {
	const char *name;
	void (*run)(const struct kind *kind);
	const struct kind *kind;
	pid_t pid;
	FILE *said;
};

static void begin(struct part *p)
{
	p->said = tmpfile();
	must(p->said != NULL, "tmpfile");
	fflush(stdout);
	p->pid = fork();
	must(p->pid >= 0, "fork");
	if (p->pid)
		return;
	must(dup2(fileno(p->said), STDOUT_FILENO) == STDOUT_FILENO, "dup2");
	p->run(p->kind);
	fflush(stdout);
	_exit(0);
}

/* Prints what it has said; how many failed. */
static int finish(struct part *p)
{
	int status, c;

	must(waitpid(p->pid, &status, 0) == p->pid, "waitpid");
	rewind(p->said);
	while ((c = getc(p->said)) != EOF)
		putchar(c);
	fclose(p->said);
	if (status)
		fprintf(stderr, "contract: %s ended with %d\n", p->name, status);
	return status != 0;
}

/* Most of their time is a wait: all kinds at once, or one part after the other (@slowly). */
static int all_kinds(bool slowly, const char *only)
{
	enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };
	struct part parts[2 * KINDS];
	int n = 0, done = 0, failed = 0;

	for (size_t i = 0; i < 2 * KINDS; i++) {
		const struct kind *kind = &kinds[i / 2];

		if (i % 2 ? kind->looks_only : kind->sync)
			continue;
		if (only && strcmp(only, kind->name))
			continue;
		parts[n] = (struct part){ .name = kind->name,
					  .run = i % 2 ? answers : look,
					  .kind = kind };
		begin(&parts[n++]);
		if (slowly)
			failed += finish(&parts[done++]);
	}
	for (; done < n; done++)
		failed += finish(&parts[done]);
	return failed;
}

/* They are about ports, so none runs beside another. */
static int others(const char *only)
{
	struct part parts[] = { { .name = "rules", .run = rules },
				{ .name = "names", .run = names },
				{ .name = "endpoints", .run = endpoints },
				{ .name = "flows", .run = flows } };
	int failed = 0;

	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (only && strcmp(only, parts[i].name))
			continue;
		begin(&parts[i]);
		failed += finish(&parts[i]);
	}
	return failed;
}

int main(int argc, char **argv)
{
	struct rlimit files = { 8192, 8192 };
	const char *only = argc > 4 ? argv[4] : NULL;
	int failed;

	own4.in.sin_family = AF_INET;
	own6.in6.sin6_family = AF_INET6;
	must(argc >= 3 && inet_pton(AF_INET, argv[1], &own4.in.sin_addr) == 1 &&
		     inet_pton(AF_INET6, argv[2], &own6.in6.sin6_addr) == 1,
	     "arguments: an IPv4 and an IPv6 address");
	setrlimit(RLIMIT_NOFILE, &files);
	failed = all_kinds(argc > 3, only);
	failed += others(only);
	return failed ? 1 : 0;
}
