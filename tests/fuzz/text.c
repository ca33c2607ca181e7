// SPDX-License-Identifier: MIT
/* What a person types: the grammars of the SOFTHCA_ variables, and the text that a tool writes
 * while the program runs (fault_live.h). The input: which grammar, then the text. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "fuzz.h"
#include "link/fault_live.h"
#include "net/netdev.h"
#include "peers/contact_trust.h"
#include "peers/host_names.h"
#include "util/sealed.h"
#include "util/spelling.h"
#include "wire/aeth.h"

enum { MAX = 1200, PAGE = 4096 };

const struct fuzz_target fuzz_target = { "text", MAX, 200000 };

static bool share(double v)
{
	return v >= 0 && v <= 1;
}

static void check_fault(const struct fault_config *c)
{
	must(share(c->loss) && share(c->dup) && share(c->reorder) && share(c->corrupt));
	must(c->psn <= PSN_MASK && c->psn_last <= PSN_MASK && c->qp <= PSN_MASK);
}

static void faults(const char *text)
{
	struct fault_config c;
	char why[64];
	bool wrong = fault_wrong(text, why, sizeof(why));

	must(!fault_parse(text, &c) == !wrong);
	if (!wrong)
		check_fault(&c);
	else
		must(memchr(why, 0, sizeof(why)) && *why);
}

static void devices(const char *text)
{
	struct netdev_map map;

	if (netdev_map_parse(text, &map))
		return;
	must(map.count && map.count <= sizeof(map.entry) / sizeof(map.entry[0]));
	for (unsigned int i = 0; i < map.count; i++) {
		must(memchr(map.entry[i].device, 0, sizeof(map.entry[i].device)));
		must(memchr(map.entry[i].netdev, 0, sizeof(map.entry[i].netdev)));
		must(*map.entry[i].device && *map.entry[i].netdev);
	}
}

static void words(const char *text)
{
	static const char *const list[] = { "loss", "delay", "seed", "SOFTHCA_DIRECT", NULL };
	const char *near = spelling_nearest(text, list);
	uint32_t uid;

	must(!near || strlen(text) < SPELLING_MAX);
	must(trust_word(text) != TRUST_EVERYBODY || !strcmp(text, "1"));
	setenv(HOST_NAMES_TOLD, text, 1);
	host_names_uid(&uid);
	unsetenv(HOST_NAMES_TOLD);
}

/* The page as the tool maps it, and as a tool that breaks off, or lies, leaves it. */
static void live(const uint8_t *data, size_t len)
{
	static uint8_t *page;
	struct fault_config c;
	uint32_t seen = 0;
	int fd;

	if (!page) {
		fault_live_start();
		must(!sealed_find(getpid(), "softhca-fault", true, &fd));
		must(!sealed_map(fd, PAGE, true, (void **)&page));
		close(fd);
	}
	memset(page, 0, PAGE);
	memcpy(page, data, len);
	if (fault_live_changed(&seen, &c)) {
		check_fault(&c);
		must(seen && !(seen & 1));
		must(!fault_live_changed(&seen, &c));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct fuzz_bytes b = { data, len };
	unsigned int what = (unsigned int)fuzz_take(&b, 1) % 4;
	char *text = malloc(b.left + 1);

	if (!text)
		abort();
	memcpy(text, b.p, b.left);
	text[b.left] = '\0';
	if (what == 0)
		faults(text);
	else if (what == 1)
		devices(text);
	else if (what == 2)
		words(text);
	else
		live(b.p, b.left);
	free(text);
	return 0;
}
