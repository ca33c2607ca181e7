// SPDX-License-Identifier: MIT
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "link/fault.h"
#include "util/spelling.h"
#include "wire/aeth.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* "e-4" behind a number, which it changes. */
static void exponent(const char **text, double *v)
{
	const char *at = *text;
	char *end;
	long e;

	if (*at++ != 'e' || !is_digit(at[*at == '-']))
		return;
	for (e = strtol(at, &end, 10); e && *v > 0 && *v <= 1e300; e += e < 0 ? 1 : -1)
		*v = e < 0 ? *v / 10 : *v * 10;
	*text = end;
}

/* A decimal number. strtod() would take the program's locale's: with a comma, in many. */
static bool decimal(const char *text, const char **end, double *out)
{
	double v = 0, scale = 1;
	bool any = false, point = false;

	for (; is_digit(*text) || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		v = v * 10 + (*text - '0');
		scale *= point ? 10 : 1;
		any = true;
	}
	v /= scale;
	exponent(&text, &v);
	*out = v;
	*end = text;
	return any;
}

/* chance() and duration() read up to the next comma or the end; false: the text is neither. */
static bool chance(const char *text, const char **end, double *out)
{
	const char *at;
	double v;

	if (!decimal(text, &at, &v))
		return false;
	if (*at == '%') {
		v /= 100;
		at++;
	}
	*out = v;
	*end = at;
	return v >= 0 && v <= 1;
}

static bool duration(const char *text, const char **end, uint64_t *out)
{
	static const struct {
		const char *name;
		double ns;
	} units[] = { { "ns", 1 }, { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
	const char *at;
	double v;

	if (!decimal(text, &at, &v) || !(v <= 1e9))
		return false;
	for (unsigned int i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		size_t n = strlen(units[i].name);

		if (strncmp(at, units[i].name, n))
			continue;
		*out = (uint64_t)(v * units[i].ns);
		*end = at + n;
		return true;
	}
	return false;
}

static bool number(const char *text, const char **end, uint64_t *out)
{
	char *at;

	if (!is_digit(*text))
		return false;
	errno = 0;
	*out = strtoull(text, &at, 0);
	*end = at;
	return !errno;
}

/* One number, or the first and the last. */
static bool psns(const char *text, const char **end, struct fault_config *c)
{
	c->only_psn = true;
	if (!number(text, end, &c->psn))
		return false;
	c->psn_last = c->psn;
	return (**end != '-' || number(*end + 1, end, &c->psn_last)) && c->psn <= PSN_MASK &&
	       c->psn_last <= PSN_MASK;
}

static bool which(const char **text, struct fault_config *c)
{
	if (!strncmp(*text, "qp=", 3))
		return number(*text + 3, text, &c->qp) && c->qp <= PSN_MASK;
	if (!strncmp(*text, "psn=", 4))
		return psns(*text + 4, text, c);
	return !strncmp(*text, "count=", 6) && number(*text + 6, text, &c->count);
}

static bool setting(const char **text, struct fault_config *c)
{
	const struct {
		const char *name;
		double *p;
	} chances[] = { { "loss=", &c->loss },
			{ "dup=", &c->dup },
			{ "reorder=", &c->reorder },
			{ "corrupt=", &c->corrupt } };

	for (unsigned int i = 0; i < sizeof(chances) / sizeof(chances[0]); i++) {
		size_t n = strlen(chances[i].name);

		if (!strncmp(*text, chances[i].name, n))
			return chance(*text + n, text, chances[i].p);
	}
	if (!strncmp(*text, "delay=", 6))
		return duration(*text + 6, text, &c->delay);
	if (!strncmp(*text, "seed=", 5))
		return number(*text + 5, text, &c->seed);
	return which(text, c);
}

/* @at: where the setting that is wrong begins. */
static int parse(const char *text, struct fault_config *out, const char **at)
{
	struct fault_config c = { .seed = 1 };

	while (*text) {
		*at = text;
		if (!setting(&text, &c))
			return EINVAL;
		if (*text == ',' && text[1])
			text++;
		else if (*text)
			return EINVAL;
	}
	*out = c;
	return 0;
}

int fault_parse(const char *text, struct fault_config *out)
{
	const char *at;

	return parse(text, out, &at);
}

/* @at: a setting that is wrong. */
static void complain(const char *at, char *buf, size_t n)
{
	static const char *const names[] = { "loss", "dup", "reorder", "corrupt", "delay",
					     "seed", "qp",  "psn",     "count",	  NULL };
	int len = (int)strcspn(at, ","), name = (int)strcspn(at, "=,");
	char word[SPELLING_MAX] = "";
	const char *meant;

	if ((size_t)name < sizeof(word))
		memcpy(word, at, (size_t)name);
	meant = spelling_nearest(word, names);
	if (!meant)
		snprintf(buf, n,
			 "'%.*s' is no setting; there are loss, dup, reorder, corrupt, "
			 "delay, seed, qp, psn and count",
			 len, at);
	else if (strcmp(meant, word))
		snprintf(buf, n, "'%s' is no setting; is it '%s'?", word, meant);
	else
		snprintf(buf, n,
			 "'%.*s' has no value that %s takes; one is like loss=1%%, "
			 "delay=50us, qp=0x412, psn=17-20, count=1",
			 len, at, word);
}

bool fault_wrong(const char *text, char *buf, size_t n)
{
	struct fault_config c;
	const char *at = text;

	if (!parse(text, &c, &at))
		return false;
	complain(at, buf, n);
	return true;
}
