// SPDX-License-Identifier: MIT
#include "shown.h"
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "net/gid.h"
#include "peers/host_names.h"
#include "peers/host_show.h"
#include "terminal.h"
#include "util/clock.h"
#include "util/sealed.h"

enum {
	PATIENCE = 1000, /* ms; a stopped process never answers */
	ROUND = 128, /* processes that are asked at once; a descriptor each */
	LARGEST = 256 << 20,
};

/* Processes that were asked, and the connections on which they answer. */
struct asked {
	unsigned int n;
	struct shown at[ROUND];
	int conn[ROUND]; /* -1: at[].err says why there is none */
};

static void read_program(struct shown *s)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(s->program, sizeof(s->program), "?");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)s->pid);
	fd = s->pid ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	n = read(fd, s->program, sizeof(s->program) - 1);
	close(fd);
	s->program[n > 0 ? n : 0] = '\0';
	s->program[strcspn(s->program, "\n")] = '\0';
	terminal_clean(s->program);
}

/* The peer may have written anything. */
static int copy(const struct show_head *from, size_t bytes, struct shown *s)
{
	struct show_head head = *from;

	if (head.version != SHOW_VERSION || head.entry != sizeof(struct show_qp) ||
	    head.count > (bytes - sizeof(head)) / sizeof(struct show_qp))
		return EPROTO;
	s->now = head.now;
	s->qp = calloc(head.count ? head.count : 1, sizeof(*s->qp));
	if (!s->qp)
		return ENOMEM;
	s->count = head.count;
	memcpy(s->qp, from + 1, head.count * sizeof(*s->qp));
	for (uint32_t i = 0; i < s->count; i++) {
		s->qp[i].text[SHOW_TEXT - 1] = '\0';
		terminal_clean(s->qp[i].text);
	}
	return 0;
}

static int take(int fd, struct shown *s)
{
	struct stat st;
	void *map;
	int err;

	if (fstat(fd, &st) || st.st_size < (off_t)sizeof(struct show_head) || st.st_size > LARGEST)
		return EPROTO;
	err = sealed_map(fd, (size_t)st.st_size, false, &map);
	if (err)
		return err;
	err = copy(map, (size_t)st.st_size, s);
	sealed_unmap(map, (size_t)st.st_size);
	return err;
}

static void ask(unsigned int slot, struct asked *r)
{
	struct shown *s = &r->at[r->n];

	*s = (struct shown){ .slot = slot };
	s->err = host_show_ask(slot, &s->pid, &r->conn[r->n]);
	/* It has ended, or takes this slot just now; or another user has listed a slot of his. */
	if (s->err == ECONNREFUSED || s->err == EPERM)
		return;
	if (s->err)
		r->conn[r->n] = -1;
	r->n++;
}

/* Until all have answered, or have had their time. */
static void await(const struct asked *r)
{
	uint64_t now = clock_now(), end = now + PATIENCE * UINT64_C(1000000);
	unsigned int left = 0;
	struct pollfd p[ROUND];

	for (unsigned int i = 0; i < r->n; i++) {
		p[i] = (struct pollfd){ r->conn[i], POLLIN, 0 };
		left += r->conn[i] >= 0;
	}
	for (; left && now < end; now = clock_now()) {
		if (poll(p, r->n, (int)((end - now) / 1000000) + 1) <= 0)
			continue;
		for (unsigned int i = 0; i < r->n; i++) {
			if (p[i].fd < 0 || !p[i].revents)
				continue;
			p[i].fd = -1;
			left--;
		}
	}
}

static void take_answer(struct shown *s, int conn)
{
	int fd = -1;

	if (conn >= 0)
		s->err = host_show_answer(conn, &fd);
	if (!s->err) {
		s->err = take(fd, s);
		close(fd);
	}
	read_program(s);
}

static int append(struct shown_list *l, const struct shown *s)
{
	struct shown *more = realloc(l->at, (l->n + 1) * sizeof(*more));

	if (!more)
		return ENOMEM;
	l->at = more;
	l->at[l->n++] = *s;
	return 0;
}

static int by_pid(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;

	return x->pid == y->pid ? (x->slot > y->slot) - (x->slot < y->slot)
				: (x->pid > y->pid) - (x->pid < y->pid);
}

/* A process with more slots than one shows all its QPs in each. */
static bool is_known(const struct shown_list *l, const struct shown *s)
{
	for (unsigned int i = 0; i < l->n; i++)
		if (s->pid && l->at[i].pid == s->pid)
			return true;
	return false;
}

static int take_answers(struct asked *r, struct shown_list *out)
{
	int err = 0;

	await(r);
	for (unsigned int i = 0; i < r->n; i++) {
		take_answer(&r->at[i], r->conn[i]);
		out->owner[r->at[i].slot] = r->at[i].pid;
		if (err || is_known(out, &r->at[i]))
			free(r->at[i].qp);
		else
			err = append(out, &r->at[i]);
	}
	r->n = 0;
	return err;
}

int shown_read(struct shown_list *out)
{
	uint64_t taken[NUMBER_SLOTS / 64];
	struct asked r = { 0 };
	uint32_t uid;
	int err = host_names_uid(&uid);

	*out = (struct shown_list){ 0 };
	if (err)
		return err;
	out->layout = host_names_other_layout(uid);
	host_names_read(uid, taken);
	for (unsigned int slot = 0; !err && slot < NUMBER_SLOTS; slot++) {
		if (taken[slot / 64] >> slot % 64 & 1)
			ask(slot, &r);
		if (r.n == ROUND)
			err = take_answers(&r, out);
	}
	if (!err)
		err = take_answers(&r, out);
	if (out->n)
		qsort(out->at, out->n, sizeof(*out->at), by_pid);
	return err;
}

void shown_free(struct shown_list *l)
{
	for (unsigned int i = 0; i < l->n; i++)
		free(l->at[i].qp);
	free(l->at);
	*l = (struct shown_list){ 0 };
}

pid_t shown_owner(const struct shown_list *l, uint32_t number)
{
	return number_slot(number) < NUMBER_SLOTS ? l->owner[number_slot(number)] : 0;
}

const char *shown_why(int err)
{
	if (err == ETIMEDOUT)
		return "it does not answer: is it stopped?";
	if (err == EPROTO)
		return "it runs another version of softhca";
	return strerror(err);
}

const char *shown_peer(const struct shown_list *l, const struct show_qp *q, char *buf, size_t n)
{
	pid_t owner = shown_owner(l, q->peer);
	char address[INET6_ADDRSTRLEN];
	union ibv_gid gid;

	if (!q->peer) {
		snprintf(buf, n, "-");
	} else if (q->way == SHOW_NETWORK) {
		memcpy(gid.raw, q->remote, sizeof(gid.raw));
		gid_text(&gid, address, sizeof(address));
		snprintf(buf, n, "QP 0x%x at %s", q->peer, address);
	} else if (owner) {
		snprintf(buf, n, "QP 0x%x of %d", q->peer, (int)owner);
	} else {
		snprintf(buf, n, "QP 0x%x", q->peer);
	}
	return buf;
}

static void since(const struct show_qp *q, char *buf, size_t n)
{
	buf[0] = '\0';
	if (q->since >= 1000000000)
		snprintf(buf, n, " since %llu s", (unsigned long long)q->since / 1000000000);
	else if (q->since)
		snprintf(buf, n, " since %llu ms", (unsigned long long)q->since / 1000000);
}

const char *shown_wait(const struct show_qp *q, char *buf, size_t n)
{
	static const char *const words[] = {
		[SHOW_NOTHING] = "-",		[SHOW_ROOM] = "room on the way to its peer",
		[SHOW_RATE] = "its rate limit", [SHOW_EMPTY] = "- (no receive is posted)",
		[SHOW_BUSY] = "(at work)",
	};
	char time[32];

	since(q, time, sizeof(time));
	if (q->wait == SHOW_RNR)
		snprintf(buf, n, "a receive at its peer: RNR from QP 0x%x%s", q->peer, time);
	else if (q->wait == SHOW_RECEIVE)
		snprintf(buf, n, "a receive: the queue is empty, and a message waits%s", time);
	else if (q->wait == SHOW_LOST)
		snprintf(buf, n, "its ack timeout: QP 0x%x takes or answers nothing%s", q->peer,
			 time);
	else if (q->wait == SHOW_ANSWER)
		snprintf(buf, n, "an answer of QP 0x%x%s", q->peer, time);
	else if (q->wait == SHOW_ERROR)
		snprintf(buf, n, "RESET: %s", q->text[0] ? q->text : "the program moved it here");
	else
		snprintf(buf, n, "%s",
			 q->wait <= SHOW_BUSY && words[q->wait] ? words[q->wait] : "?");
	return buf;
}
