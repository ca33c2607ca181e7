// SPDX-License-Identifier: MIT
/* softhca top: what processes, or the QPs of one, do in a second. Rates come from two looks. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "hca/qp_names.h"
#include "shown.h"
#include "softhca.h"

#define MSN_MASK 0xffffffU

struct options {
	pid_t pid;
	unsigned long count; /* of refreshes; 0: no end */
	double delay; /* s */
	bool batch;
};

struct rate { /* in a second */
	double sends, bytes, messages;
	uint32_t outstanding, waiting; /* sends; QPs that wait for something */
};

static const struct shown *same_process(const struct shown_list *l, const struct shown *s)
{
	for (unsigned int i = 0; i < l->n; i++)
		if (l->at[i].pid == s->pid && l->at[i].slot == s->slot)
			return &l->at[i];
	return NULL;
}

/* QPs are shown in the order of their numbers. */
static const struct show_qp *same_qp(const struct shown *s, uint32_t qpn)
{
	uint32_t low = 0, high = s ? s->count : 0, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (s->qp[mid].qpn == qpn)
			return &s->qp[mid];
		if (s->qp[mid].qpn < qpn)
			low = mid + 1;
		else
			high = mid;
	}
	return NULL;
}

static void add(struct rate *r, const struct show_qp *was, const struct show_qp *is, double seconds)
{
	double sends, messages;

	r->outstanding += is->sends;
	r->waiting += is->wait != SHOW_NOTHING && is->wait != SHOW_BUSY && is->wait != SHOW_EMPTY;
	if (!was || seconds <= 0)
		return;
	sends = is->done - was->done;
	messages = (is->messages - was->messages) & MSN_MASK;
	if (is->done < was->done && was->done - is->done < UINT32_MAX / 2)
		return; /* RESET in between */
	r->sends += sends / seconds;
	r->bytes += sends / seconds * is->mean;
	r->messages += messages / seconds;
}

static void print_qps(const struct shown_list *l, const struct shown *was, const struct shown *is,
		      double seconds)
{
	char peer[96], wait[SHOW_TEXT + 64];

	printf("  %-8s %-8s %-5s %10s %9s %10s %6s  %-24s %s\n", "QP", "TYPE", "STATE", "SENDS/s",
	       "MB/s", "RECVS/s", "SENDS", "PEER", "WAITS FOR");
	for (uint32_t i = 0; i < is->count; i++) {
		const struct show_qp *q = &is->qp[i];
		struct rate r = { 0 };

		add(&r, same_qp(was, q->qpn), q, seconds);
		printf("  0x%-6x %-8s %-5s %10.0f %9.1f %10.0f %6u  %-24s %s\n", q->qpn,
		       qp_type_name(q->type), qp_state_name(q->state), r.sends, r.bytes / 1e6,
		       r.messages, q->sends, shown_peer(l, q, peer, sizeof(peer)),
		       shown_wait(q, wait, sizeof(wait)));
	}
}

static void print_process(const struct shown *was, const struct shown *is, double seconds)
{
	struct rate r = { 0 };

	if (is->err) {
		printf("%8d %-15s %s\n", (int)is->pid, is->program, shown_why(is->err));
		return;
	}
	for (uint32_t i = 0; i < is->count; i++)
		add(&r, same_qp(was, is->qp[i].qpn), &is->qp[i], seconds);
	printf("%8d %-15s %6u %10.0f %9.1f %10.0f %6u %7u\n", (int)is->pid, is->program, is->count,
	       r.sends, r.bytes / 1e6, r.messages, r.outstanding, r.waiting);
}

static void print(const struct options *o, const struct shown_list *was,
		  const struct shown_list *is)
{
	if (!o->batch)
		fputs("\033[H\033[2J", stdout);
	if (!o->pid)
		printf("%8s %-15s %6s %10s %9s %10s %6s %7s\n", "PID", "PROGRAM", "QPS", "SENDS/s",
		       "MB/s", "RECVS/s", "SENDS", "WAITING");
	for (unsigned int i = 0; i < is->n; i++) {
		const struct shown *s = &is->at[i], *before = same_process(was, s);
		double seconds =
			before && s->now > before->now ? (double)(s->now - before->now) / 1e9 : 0;

		if (o->pid && !s->err && s->pid == o->pid)
			print_qps(is, before, s, seconds);
		else if (!o->pid || s->pid == o->pid)
			print_process(before, s, seconds);
	}
	fflush(stdout);
}

static bool has(const struct shown_list *l, pid_t pid)
{
	for (unsigned int i = 0; i < l->n; i++)
		if (l->at[i].pid == pid)
			return true;
	return !pid;
}

static void wait_a_moment(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		continue;
}

static int failed(const struct options *o, int err)
{
	if (err)
		complain("processes are not found: %s", strerror(err));
	else
		complain("process %d is no program on softhca of this user", (int)o->pid);
	return 1;
}

/* Until @o->count pictures are printed, or the process of @o->pid has ended, or nobody reads. */
static int watch(const struct options *o)
{
	struct shown_list was, is;
	int err = shown_read(&was);
	bool there = has(&was, o->pid);

	if (err || !there) {
		shown_free(&was);
		return failed(o, err);
	}
	for (unsigned long i = 0; there && !ferror(stdout) && (!o->count || i < o->count); i++) {
		wait_a_moment(o->delay);
		err = shown_read(&is);
		there = !err && has(&is, o->pid);
		if (there)
			print(o, &was, &is);
		shown_free(&was);
		was = is;
	}
	shown_free(&was);
	return err ? failed(o, err) : 0;
}

static bool parse(int argc, char **argv, struct options *o)
{
	char *end = "";
	int c;

	while ((c = getopt(argc, argv, "bn:d:")) >= 0) {
		if (c == 'b')
			o->batch = true;
		else if (c == 'n')
			o->count = strtoul(optarg, &end, 10);
		else if (c == 'd')
			o->delay = strtod(optarg, &end);
		else
			return false;
		if (*end || (c == 'n' && !o->count) || !(o->delay >= 0.01 && o->delay <= 3600))
			return false;
	}
	if (optind < argc)
		o->pid = process_of(argv[optind]);
	return optind == argc || (optind + 1 == argc && o->pid);
}

int cmd_top(int argc, char **argv)
{
	struct options o = { .delay = 1, .batch = !isatty(STDOUT_FILENO) };

	if (!parse(argc, argv, &o)) {
		complain("usage: softhca top [-b] [-n COUNT] [-d SECONDS] [PID]");
		return EXIT_USAGE;
	}
	return watch(&o);
}
