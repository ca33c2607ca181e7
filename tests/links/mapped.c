// SPDX-License-Identifier: MIT
/* Memory that two processes have mapped (docs/design/mapped-memory.md): its owner is another
 * process, the area a memfd that this test made. It is reached by loads and stores once it has
 * been used often enough, and by nothing when its key has gone, its file was cut short, or its
 * owner is dead. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "peers/contact_talk.h"
#include "peers/host_state.h"
#include "station.h"
#include "util/guard.h"
#include "util/rand.h"

enum { PAGE = 4096, SIZE = 300 * PAGE, KEY_INDEX = 3, TRIES = 300 };

enum order { UNKEY = 1, KEY, REVOKE, LIE, QUIT };

/* The owner's area; in the test at the same address, of the same file. */
static uint8_t *area;
static int area_fd;
static bool path_first; /* the program has the file open as a path, too, by a lower number */
static uint32_t asker; /* the number that the owner's QP takes accesses from */

static void publish(struct station *st)
{
	const struct host_qp qp = { .state = IBV_QPS_RTS,
				    .access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
				    .pdn = 7,
				    .peer_qpn = asker,
				    .flags = HOST_QP_DIRECT };

	host_publish_qp(st->h, station_number(st), &qp);
}

/* Answers what was asked about the key with files that are not the area. */
static void lie(struct station *st, struct contact *c)
{
	struct host_key k;
	struct share_message m = { .key = KEY_INDEX << 8 | 0x5a, .found = 1 };
	int other = memfd_create("other", MFD_CLOEXEC), found;

	st->h->cfg.key_read(host_key_memory(st->h), STATION_KEYS, m.key, &k);
	if (mapping_find(k.addr, k.len, &m.file, &found))
		_exit(3);
	m.gen = k.gen;
	m.file.offset = UINT64_MAX - PAGE + 1;
	contact_talk_share(c, CONTACT_SHARED, &m, area_fd);
	m.file.offset = 0;
	m.file.len = k.len / 2;
	contact_talk_share(c, CONTACT_SHARED, &m, area_fd);
	contact_talk_share(c, CONTACT_SHARED, &m, -1);
	contact_talk_share(c, CONTACT_SHARED, &m, other);
	m.key = 5;
	contact_talk_share(c, CONTACT_SHARED, &m, area_fd);
	contact_talk_share(c, CONTACT_UNSHARE, &m, -1);
}

static int owner(int talk, void *arg)
{
	struct station st = { 0 };
	struct seg hello = { .op = 4, .flags = SEG_SQPN, .pkey = 0xffff, .npsn = 1 };
	uint32_t key = 0;
	struct dest *d;
	uint64_t order;

	(void)arg;
	station_open(&st);
	host_mark_alive(st.h);
	asker = (uint32_t)child_hear(talk);
	d = station_dest(&st, asker);
	hello.dqpn = asker;
	if (station_send(&st, d, &hello))
		return 1;
	key = station_key(&st, KEY_INDEX, area, SIZE);
	publish(&st);
	child_tell(talk, station_number(&st));
	fcntl(talk, F_SETFL, O_NONBLOCK);
	for (order = 0; order != QUIT;) {
		station_turn(&st);
		if (recv(talk, &order, sizeof(order), 0) != sizeof(order))
			continue;
		if (order == UNKEY)
			station_unkey(&st, KEY_INDEX);
		else if (order == KEY)
			station_key(&st, KEY_INDEX, area, SIZE);
		else if (order == REVOKE)
			host_revoke(st.h, key);
		else if (order == LIE)
			lie(&st, to_target(d)->c);
		child_tell(talk, order);
	}
	return 0;
}

struct rig {
	struct station st;
	struct child c;
	struct dest *d;
	uint32_t qpn;
	unsigned int parts; /* in which the last access went */
	struct link_grant grant;
};

static void open_path(void)
{
	int high = fcntl(area_fd, F_DUPFD_CLOEXEC, area_fd + 1), path;
	char name[32];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", high);
	path = open(name, O_PATH | O_CLOEXEC);
	check(high >= 0 && path >= 0);
	check_eq(dup2(path, area_fd), area_fd);
	close(path);
	area_fd = high;
}

static void rig_open(struct rig *g)
{
	memset(g, 0, sizeof(*g));
	area_fd = memfd_create("area", MFD_CLOEXEC);
	check_eq(ftruncate(area_fd, SIZE), 0);
	area = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, area_fd, 0);
	check(area != MAP_FAILED);
	if (path_first)
		open_path();
	station_open(&g->st);
	guard_recheck(); /* the test framework has set handlers of its own */
	g->c = child_start(owner, NULL);
	child_tell(g->c.talk, station_number(&g->st));
	station_until(&g->st, &g->st.count, 1);
	g->qpn = (uint32_t)child_hear(g->c.talk);
	g->d = station_dest(&g->st, g->qpn);
	station_mutual(&g->st, g->d);
}

static void rig_close(struct rig *g, bool alive)
{
	if (alive) {
		child_tell(g->c.talk, QUIT);
		child_hear(g->c.talk);
		check_eq(child_wait(&g->c), 0);
	}
	g->d->ops->put(g->d);
	station_close(&g->st);
	munmap(area, SIZE);
	close(area_fd);
}

static void tell(struct rig *g, enum order order)
{
	child_tell(g->c.talk, order);
	check_eq(child_hear(g->c.talk), order);
}

static int direct(struct rig *g, bool write, const struct piece *pieces, unsigned int n, size_t at)
{
	struct direct_ask ask = { .write = write,
				  .grant = &g->grant,
				  .sqpn = station_number(&g->st),
				  .dqpn = g->qpn,
				  .rkey = KEY_INDEX << 8 | 0x5a,
				  .va = (uintptr_t)area + at,
				  .pieces = pieces,
				  .npieces = n };

	int err = 0;

	for (unsigned int i = 0; i < n; i++)
		ask.len += pieces[i].len;
	for (g->parts = 0; ask.done < ask.len && !err; g->parts++)
		err = g->d->ops->direct(g->d, &ask);
	return err;
}

static int write_8(struct rig *g, uint64_t value)
{
	struct piece p = { (uintptr_t)&value, 8, 0 };

	return direct(g, true, &p, 1, 0);
}

static const struct share *share_of(struct rig *g)
{
	return to_target(g->d)->c->shares.theirs[KEY_INDEX].share;
}

static bool mapped(struct rig *g)
{
	return share_of(g) && share_of(g)->m.map;
}

/* Uses the key until its file has come. */
static void get_mapped(struct rig *g)
{
	while (still(!mapped(g))) {
		check_eq(write_8(g, 1), 0);
		station_turn(&g->st);
	}
}

static bool is_mapped_by_us(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	unsigned int n = 0;

	while (fgets(line, sizeof(line), maps))
		n += strstr(line, "/memfd:area") != NULL;
	fclose(maps);
	return n > 1; /* one is the test's own */
}

TEST(bytes_go_to_their_places_and_nowhere_else)
{
	static uint8_t model[SIZE], ours[SIZE], back[SIZE];
	struct piece from[3], to = { (uintptr_t)back, 0, 0 };
	struct rig g;
	struct rand r;

	rig_open(&g);
	get_mapped(&g);
	check(is_mapped_by_us());
	rand_init(&r, 5);
	memcpy(model, area, SIZE);
	for (int i = 0; i < TRIES; i++) {
		uint32_t len = 3 + (uint32_t)rand_below(&r, i % 3 ? 200 : SIZE / 2);
		uint32_t a = len / 3, at = (uint32_t)rand_below(&r, SIZE - len);

		for (uint32_t k = 0; k < len; k++)
			model[at + k] = ours[k] = (uint8_t)rand_u64(&r);
		from[0] = (struct piece){ (uintptr_t)ours, a, 0 };
		from[1] = (struct piece){ (uintptr_t)ours + a, 1, 0 };
		from[2] = (struct piece){ (uintptr_t)ours + a + 1, len - a - 1, 0 };
		check_eq(direct(&g, true, from, 3, at), 0);
		check_mem(area, model, SIZE);
		to.len = len;
		back[len] = 0x55;
		check_eq(direct(&g, false, &to, 1, at), 0);
		check_mem(back, ours, len);
		check_eq(back[len], 0x55);
	}
	rig_close(&g, true);
}

TEST(a_file_that_is_also_open_as_a_path_is_mapped)
{
	struct rig g;

	path_first = true;
	rig_open(&g);
	get_mapped(&g);
	check_eq(write_8(&g, 2), 0);
	check_eq(*(uint64_t *)(void *)area, 2);
	check_eq(g.st.deaths, 0);
	path_first = false;
	rig_close(&g, true);
}

/* What the memory descriptor of the owner's copies slowly is left to the owner. */
TEST(long_ones_go_in_parts)
{
	static uint8_t ours[SIZE];
	struct piece p = { (uintptr_t)ours, SIZE, 0 };
	struct rig g;

	rig_open(&g);
	for (unsigned int i = 0; i < SIZE; i++)
		area[i] = (uint8_t)(i % 251);
	check_eq(direct(&g, false, &p, 1, 0), 0);
	check(g.parts > SIZE / (256 << 10));
	check_mem(ours, area, SIZE);
	memset(ours, 0x55, SIZE);
	check_ne(direct(&g, true, &p, 1, 0), 0);
	check_eq(area[SIZE - 1], (SIZE - 1) % 251);
	get_mapped(&g);
	check_eq(direct(&g, true, &p, 1, 0), 0);
	check(g.parts > SIZE / (256 << 10));
	check_mem(area, ours, SIZE);
	rig_close(&g, true);
}

TEST(a_key_that_has_gone_or_changed_is_not_used)
{
	struct rig g;

	rig_open(&g);
	get_mapped(&g);
	tell(&g, UNKEY);
	check_ne(write_8(&g, 2), 0);
	check_eq(*(uint64_t *)(void *)area, 1);
	tell(&g, KEY); /* the same again, of another generation: not by the old mapping */
	check_eq(contact_share_at(to_target(g.d)->c,
				  &(struct share_ask){ KEY_INDEX << 8 | 0x5a, true, false,
						       (uintptr_t)area, 8 },
				  &(struct host_key){ .gen = share_of(&g)->gen + 2 }),
		 NULL);
	check_eq(write_8(&g, 3), 0);
	tell(&g, UNKEY);
	tell(&g, REVOKE); /* what the owner's dereg does: the mapping is given up */
	while (still(share_of(&g)))
		station_turn(&g.st);
	check(!is_mapped_by_us());
	rig_close(&g, true);
}

TEST(a_file_that_was_cut_short_harms_nobody)
{
	struct rig g;

	rig_open(&g);
	get_mapped(&g);
	check_eq(ftruncate(area_fd, 0), 0);
	check_ne(write_8(&g, 2), 0); /* the ring is asked then */
	check_eq(ftruncate(area_fd, SIZE), 0);
	check_eq(write_8(&g, 3), 0);
	check_eq(*(uint64_t *)(void *)area, 3);
	rig_close(&g, true);
}

/* The file lives on in this test; its owner's death is seen although nobody has told yet. */
TEST(the_memory_of_the_dead_is_not_touched)
{
	struct rig g;

	rig_open(&g);
	get_mapped(&g);
	check_eq(write_8(&g, 2), 0);
	kill(g.c.pid, SIGKILL);
	check_eq(child_wait(&g.c), 128 + SIGKILL);
	check_ne(write_8(&g, 3), 0);
	check_eq(*(uint64_t *)(void *)area, 2);
	rig_close(&g, false);
}

/* Wrong answers, unasked and asked: the true one may still come. */
TEST(lies_about_a_file_are_not_believed)
{
	struct rig g;

	rig_open(&g);
	tell(&g, LIE);
	for (int i = 0; i < TRIES; i++)
		station_turn(&g.st);
	check(!share_of(&g));
	for (int i = 0; i < SHARE_USES; i++)
		check_eq(write_8(&g, 1), 0); /* it is to be asked, and the lie comes first */
	contact_share_ask(to_target(g.d)->c);
	tell(&g, LIE);
	while (still(!share_of(&g)))
		station_turn(&g.st);
	check_eq(write_8(&g, 2), 0);
	check_eq(*(uint64_t *)(void *)area, 2);
	rig_close(&g, true);
}

RUN_TESTS(unit_test(bytes_go_to_their_places_and_nowhere_else), unit_test(long_ones_go_in_parts),
	  unit_test(a_file_that_is_also_open_as_a_path_is_mapped),
	  unit_test(a_key_that_has_gone_or_changed_is_not_used),
	  unit_test(a_file_that_was_cut_short_harms_nobody),
	  unit_test(the_memory_of_the_dead_is_not_touched),
	  unit_test(lies_about_a_file_are_not_believed))
