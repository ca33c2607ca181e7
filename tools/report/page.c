// SPDX-License-Identifier: MIT
#include "page.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "page_html.h"
#include "wire/opcode.h"

#define MARK "@@" /* begins the lines of the page that are filled in here */

/* --- text that may contain anything --- */

static void put_html(FILE *to, const char *text)
{
	for (; *text; text++) {
		if (strchr("<>&\"'", *text))
			fprintf(to, "&#%d;", *text);
		else
			putc(*text, to);
	}
}

/* A string of JSON that is safe between the tags of a script, too. Bytes that are no ASCII stay. */
static void put_json(FILE *to, const char *text, size_t len)
{
	putc('"', to);
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)text[i];

		if (c < ' ' || strchr("\"\\<>&'", c) || c == 0x7f)
			fprintf(to, "\\u%04x", c);
		else
			putc(c, to);
	}
	putc('"', to);
}

/* --- the table --- */

struct row { /* one connection */
	uint32_t a, b; /* its ends, a the smaller */
	uint64_t packets, bytes, messages, again, lost, naks, rnrs, stalls, longest, service;
	const struct flows_hop *refused; /* the first */
};

struct rows {
	struct row *at;
	size_t count;
};

static struct row *row_of(struct rows *r, const struct flows_hop *h)
{
	uint32_t a = h->from < h->to ? h->from : h->to, b = h->from ^ h->to ^ a;
	struct row *more;

	for (size_t i = r->count; i--;)
		if (r->at[i].a == a && r->at[i].b == b)
			return &r->at[i];
	more = reallocarray(r->at, r->count + 1, sizeof(*more));
	if (!more)
		return NULL;
	r->at = more;
	r->at[r->count] = (struct row){ .a = a, .b = b, .service = opcode_service(h->op) };
	return &r->at[r->count++];
}

static void count(const struct flows *f, struct rows *r)
{
	for (size_t i = 0; i < f->n_hops; i++) {
		const struct flows_hop *h = &f->hops[i];
		struct row *row = row_of(r, h);

		if (!row)
			return;
		row->packets++;
		row->bytes += h->fate & FLOWS_AGAIN ? 0 : h->bytes;
		row->messages +=
			opcode_has(h->op, WIRE_REQUEST | WIRE_LAST) && !(h->fate & FLOWS_AGAIN);
		row->again += !!(h->fate & FLOWS_AGAIN);
		row->lost += !!(h->fate & FLOWS_LOST);
		row->naks += !!(h->fate & FLOWS_NAK);
		row->rnrs += !!(h->fate & FLOWS_RNR);
		if (h->fate & FLOWS_REFUSED && !row->refused)
			row->refused = h;
	}
	for (size_t i = 0; i < f->n_stalls; i++) {
		const struct flows_stall *s = &f->stalls[i];
		struct row *row = row_of(r, &f->hops[s->before]);

		if (!row)
			return;
		row->stalls++;
		if (s->to - s->from > row->longest)
			row->longest = s->to - s->from;
	}
}

static void put_end(FILE *to, const struct flows_end *e)
{
	put_html(to, e->addr);
	if (e->qpn)
		fprintf(to, " QP 0x%x", e->qpn);
	else
		fputs(" QP unknown", to);
	if (!e->traced)
		fputs(" (not traced)", to);
}

static void put_reason(FILE *to, const struct flows_hop *h)
{
	const struct capture_packet *p = h->in;
	char text[512] = "";
	const char *why = memmem(p->comment, p->comment_len, "; reason: ", 10);
	size_t n = why ? (size_t)(p->comment + p->comment_len - why) - 10 : 0;

	if (why)
		memcpy(text, why + 10, n < sizeof(text) - 1 ? n : sizeof(text) - 1);
	put_html(to, text);
}

static void put_row(FILE *to, const struct flows *f, const struct row *r)
{
	const uint64_t numbers[] = { r->packets, r->messages, r->bytes, r->again,
				     r->lost,	 r->rnrs,     r->naks,	r->stalls };

	fputs("<tr><td>", to);
	put_end(to, &f->ends[r->a]);
	fputs("<td>", to);
	put_end(to, &f->ends[r->b]);
	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++)
		fprintf(to, "<td class=n>%" PRIu64, numbers[i]);
	fprintf(to, "<td class=n>%" PRIu64 ".%03" PRIu64 "<td>", r->longest / 1000000,
		r->longest / 1000 % 1000);
	if (r->refused)
		put_reason(to, r->refused);
	fputs("</tr>\n", to);
}

static void put_rows(FILE *to, const struct flows *f)
{
	struct rows r = { 0 };

	count(f, &r);
	for (size_t i = 0; i < r.count; i++)
		put_row(to, f, &r.at[i]);
	free(r.at);
}

static void put_notes(FILE *to, const struct flows *f, const struct capture *c)
{
	time_t s = f->n_hops ? (time_t)(flows_time(&f->hops[0]) / 1000000000) : 0;
	char when[32] = "";
	struct tm tm;

	if (f->n_hops && gmtime_r(&s, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm);
	fprintf(to, "<p>%zu packets from %s, by softhca " SOFTHCA_VERSION ".", f->n_hops, when);
	if (f->n_hops > PAGE_HOPS)
		fprintf(to, " The first %d are drawn.", PAGE_HOPS);
	if (f->others)
		fprintf(to, " %zu other packets are left out.", f->others);
	if (c->cut)
		fputs(" A part of a file could not be read.", to);
	fputs("</p>\n", to);
}

/* --- what the script draws --- */

/* What its writer says of a packet, from the verdict on, if that is out of the ordinary. */
static void put_comment(FILE *to, const struct capture_packet *p)
{
	static const char begin[] = "verdict: ";
	static const char *const usual[] = { "ok", "sent", "a part, see its last packet" };
	const char *at = p ? memmem(p->comment, p->comment_len, begin, sizeof(begin) - 1) : NULL;
	size_t n = at ? (size_t)(p->comment + p->comment_len - at) : 0;

	for (size_t i = 0; i < sizeof(usual) / sizeof(*usual); i++)
		if (n == strlen(begin) + strlen(usual[i]) &&
		    !memcmp(at + strlen(begin), usual[i], strlen(usual[i])))
			n = 0;
	put_json(to, at, n);
}

/* ns since @begin; null: that end has not seen it. */
static void put_time(FILE *to, uint64_t at, uint64_t begin)
{
	if (at)
		fprintf(to, ",%" PRId64, (int64_t)(at - begin));
	else
		fputs(",null", to);
}

static void put_hop(FILE *to, const struct flows_hop *h, uint64_t begin)
{
	const char *name = opcodes[h->op].name;

	fprintf(to, "[%u,%u", h->from, h->to);
	put_time(to, h->sent, begin);
	put_time(to, h->came, begin);
	fprintf(to, ",\"%s\",%u,%u,%u,", name, h->psn, h->bytes, h->fate);
	put_comment(to, h->out);
	putc(',', to);
	put_comment(to, h->in);
	putc(']', to);
}

static void put_data(FILE *to, const struct flows *f)
{
	size_t n = f->n_hops < PAGE_HOPS ? f->n_hops : PAGE_HOPS;
	uint64_t begin = n ? flows_time(&f->hops[0]) : 0;

	fputs("{\"ends\":[", to);
	for (size_t i = 0; i < f->n_ends; i++) {
		fputs(i ? ",[" : "[", to);
		put_json(to, f->ends[i].addr, strlen(f->ends[i].addr));
		fprintf(to, ",%u,%s]", f->ends[i].qpn, f->ends[i].traced ? "true" : "false");
	}
	fputs("],\n\"hops\":[", to);
	for (size_t i = 0; i < n; i++) {
		fputs(i ? ",\n" : "\n", to);
		put_hop(to, &f->hops[i], begin);
	}
	fputs("],\n\"stalls\":[", to);
	for (size_t i = 0; i < f->n_stalls && f->stalls[i].before < n; i++) {
		const struct flows_stall *s = &f->stalls[i];

		fprintf(to, "%s[%" PRIu64 ",%" PRIu64 ",%zu,\"%s\"]", i ? ",\n" : "\n",
			s->from - begin, s->to - begin, s->before, s->why);
	}
	fputs("]}\n", to);
}

void page_write(const struct flows *f, const struct capture *c, const char *name, FILE *to)
{
	for (size_t i = 0; i < sizeof(page_html) / sizeof(*page_html); i++) {
		const char *line = page_html[i];

		if (!strcmp(line, MARK "name\n"))
			put_html(to, name);
		else if (!strcmp(line, MARK "notes\n"))
			put_notes(to, f, c);
		else if (!strcmp(line, MARK "rows\n"))
			put_rows(to, f);
		else if (!strcmp(line, MARK "data\n"))
			put_data(to, f);
		else
			fputs(line, to);
	}
}
