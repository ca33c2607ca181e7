// SPDX-License-Identifier: MIT
/* Peers that break the rules: random bytes in the ring, nonsense in the handshake. The victim ends
 * that contact, says so, and goes on with others. */
#include <errno.h>
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "peers/host_names.h"
#include "peers/host_state.h"
#include "peers/ring_seg.h"
#include "station.h"
#include "util/clock.h"
#include "util/rand.h"
#include "util/sealed.h"

enum { RINGS = 30, GREETINGS = 300, MESSAGE = 144 };

static struct seg empty(const struct station *st, uint32_t to)
{
	return (struct seg){
		.op = 4, .pkey = 0xffff, .dqpn = to, .sqpn = station_number(st), .npsn = 1
	};
}

/* One contact, then its rings and its page of positions become noise. */
static int vandal(int talk, void *arg)
{
	uint64_t seed = (uintptr_t)arg;
	struct station st = { 0 };
	struct contact *c;
	struct dest *d;
	struct rand r;
	struct seg s;

	station_open(&st);
	d = station_dest(&st, (uint32_t)child_hear(talk));
	s = empty(&st, 0);
	if (station_send(&st, d, &s))
		return 1;
	child_hear(talk);
	c = to_target(d)->c;
	rand_init(&r, seed);
	for (uint32_t i = RING_CTL; i < c->out.len; i += 8)
		*(uint64_t *)((uint8_t *)c->out.map + i) = rand_u64(&r) | 1;
	c->in.ring.ctl->pos = rand_u64(&r);
	while (!st.deaths)
		station_turn(&st);
	child_hear(talk);
	return 0;
}

TEST(random_bytes_in_a_ring_end_that_contact_and_nothing_else)
{
	struct station st = { 0 };

	station_open(&st);
	for (uintptr_t i = 1; i <= RINGS; i++) {
		struct child c = child_start(vandal, (void *)i);
		uint64_t before = st.count;

		child_tell(c.talk, station_number(&st));
		station_until(&st, &st.count, before + 1);
		child_tell(c.talk, 1);
		while (st.deaths < i)
			station_turn(&st);
		child_tell(c.talk, 1);
		check_eq(child_wait(&c), 0);
	}
	station_close(&st);
}

static void greet(int conn, struct rand *r, const int *all, unsigned int n_all)
{
	char control[CMSG_SPACE(sizeof(int) * 8)] = { 0 };
	uint32_t m[40] = { 0x73687063, HOST_LAYOUT, 1 };
	struct iovec iov = { m, MESSAGE };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	unsigned int n = (unsigned int)rand_below(r, 9);
	struct cmsghdr *cm;

	for (unsigned int i = 3; i < MESSAGE / sizeof(*m); i++)
		m[i] = rand_chance(r, 0.5) ? (uint32_t)rand_below(r, 1 << 17)
					   : (uint32_t)rand_u64(r);
	if (rand_chance(r, 0.2))
		m[rand_below(r, 3)] = (uint32_t)rand_below(r, 9);
	if (rand_chance(r, 0.2))
		iov.iov_len = rand_below(r, sizeof(m));
	if (n) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int) * n);
		for (unsigned int i = 0; i < n; i++)
			memcpy(CMSG_DATA(cm) + i * sizeof(int), &all[rand_below(r, n_all)],
			       sizeof(int));
	}
	sendmsg(conn, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static unsigned int open_fds(void)
{
	unsigned int n = 0;

	for (int fd = 0; fd < 1000; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int honest(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d;
	struct seg s;

	(void)arg;
	station_open(&st);
	d = station_dest(&st, (uint32_t)child_hear(talk));
	s = empty(&st, 0);
	return station_send(&st, d, &s);
}

TEST(nonsense_in_the_handshake_is_refused_without_leaks)
{
	int fds[3] = { eventfd(0, EFD_CLOEXEC), memfd_create("unsealed", MFD_CLOEXEC),
		       memfd_create("small", MFD_CLOEXEC | MFD_ALLOW_SEALING) };
	struct station st = { 0 };
	struct child c;
	unsigned int before;
	struct rand r;

	rand_init(&r, 9);
	station_open(&st);
	before = open_fds();
	for (int i = 0; i < GREETINGS; i++) {
		int conn;

		check_eq(host_name_connect(st.slot, &conn), 0);
		greet(conn, &r, fds, 3);
		station_turn(&st);
		close(conn);
		for (int n = 0; n < 70; n++)
			station_turn(&st);
	}
	check(open_fds() <= before + 1);
	c = child_start(honest, NULL);
	child_tell(c.talk, station_number(&st));
	station_until(&st, &st.count, 1);
	check_eq(child_wait(&c), 0);
	for (int i = 0; i < 3; i++)
		close(fds[i]);
	station_close(&st);
}

/* The messages of a handshake (contact_message.h), by their numbers. */
enum {
	HELLO = 1,
	READY = 3,
	FETCHES = 7,
	RUNG = 12,
	KIND = 2,
	SLOT = 3,
	COOKIE_ADDRESS = 6,
	N_KEYS = 9,
	KEY_BYTES = 10,
	RING_BYTES = 12,
};

static void say(int conn, const uint32_t *m, const int *fds, unsigned int n)
{
	char control[CMSG_SPACE(sizeof(int) * 6)] = { 0 };
	struct iovec iov = { (void *)(uintptr_t)m, MESSAGE };
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	struct cmsghdr *cm;

	if (n) {
		msg.msg_control = control;
		msg.msg_controllen = CMSG_SPACE(sizeof(int) * n);
		cm = CMSG_FIRSTHDR(&msg);
		cm->cmsg_level = SOL_SOCKET;
		cm->cmsg_type = SCM_RIGHTS;
		cm->cmsg_len = CMSG_LEN(sizeof(int) * n);
		memcpy(CMSG_DATA(cm), fds, sizeof(int) * n);
	}
	check_eq(sendmsg(conn, &msg, MSG_DONTWAIT | MSG_NOSIGNAL), MESSAGE);
}

/* A process that speaks by itself: what it shows, and what WELCOME has brought. */
struct stranger {
	int conn, name; /* @name: bound to that of its slot */
	uint32_t slot; /* that it claims */
	struct host_page *page;
	struct ring_ctl *in; /* the ring that it reads */
	struct ring_ctl *out; /* the ring it writes to; NULL: no WELCOME came */
};

static void turns(struct station *st)
{
	for (int n = 0; n < 70; n++)
		station_turn(st);
}

/* The kind of the next message, 0: none. A ring among its descriptors becomes the stranger's. */
static uint32_t hear(struct stranger *x)
{
	union {
		char room[CMSG_SPACE(sizeof(int) * 6)];
		struct cmsghdr align;
	} control;
	uint32_t m[MESSAGE / 4] = { 0 };
	struct iovec iov = { m, sizeof(m) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = control.room,
			      .msg_controllen = sizeof(control.room) };
	struct cmsghdr *cm;
	void *map;
	int fd;

	if (recvmsg(x->conn, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != MESSAGE)
		return 0;
	cm = CMSG_FIRSTHDR(&msg);
	for (size_t i = 0; cm && CMSG_LEN((i + 1) * sizeof(int)) <= cm->cmsg_len; i++) {
		memcpy(&fd, CMSG_DATA(cm) + i * sizeof(int), sizeof(int));
		if (!sealed_map(fd, RING_CTL + RING_MIN, true, &map))
			x->out = map;
		close(fd);
	}
	return m[KIND];
}

/* Says HELLO. Its page has @bytes of keys, and says that they are @n_keys. */
static void say_hello(const struct station *st, uint32_t n_keys, uint32_t bytes, struct stranger *x)
{
	uint32_t m[MESSAGE / 4] = { 0x73687063, HOST_LAYOUT, HELLO, x->slot };
	struct host_layout l;
	void *map;
	int fds[4];

	host_layout(n_keys, bytes, &l);
	check_eq(sealed_make("page", HOST_PAGE_BYTES, SEALED_SPARSE, &fds[0], &map), 0);
	x->page = map;
	check_eq(sealed_make("mail", HOST_MAIL_BYTES, SEALED_SPARSE, &fds[2], &map), 0);
	check_eq(sealed_make("ring", RING_CTL + RING_MIN, SEALED_SPARSE, &fds[1], &map), 0);
	x->in = map;
	check_eq(sealed_make("tables", l.bytes, SEALED_SPARSE, &fds[3], &map), 0);
	m[COOKIE_ADDRESS] = 1; /* as to a process of our user */
	m[N_KEYS] = n_keys;
	m[KEY_BYTES] = bytes;
	m[RING_BYTES] = RING_MIN;
	check_eq(host_name_connect(st->slot, &x->conn), 0);
	say(x->conn, m, fds, 4);
	for (int i = 0; i < 4; i++)
		close(fds[i]);
}

static void say_ready(const struct stranger *x)
{
	const uint32_t m[MESSAGE / 4] = { 0x73687063, HOST_LAYOUT, READY, x->slot };

	say(x->conn, m, NULL, 0);
}

/* Says HELLO and READY. What is said behind a HELLO that was refused is not listened to. */
static void come(struct station *st, uint32_t n_keys, uint32_t bytes, struct stranger *x)
{
	/* no station has it */
	*x = (struct stranger){ .slot = (st->slot + NUMBER_SLOTS / 2) % NUMBER_SLOTS };
	check_eq(host_name_bind(x->slot, &x->name), 0);
	say_hello(st, n_keys, bytes, x);
	say_ready(x);
	turns(st);
}

/* Does the station answer this HELLO with a WELCOME? */
static bool welcome(struct station *st, uint32_t n_keys, uint32_t bytes)
{
	struct stranger x;
	bool yes;

	come(st, n_keys, bytes, &x);
	yes = hear(&x);
	close(x.conn);
	close(x.name);
	turns(st);
	return yes;
}

TEST(a_table_of_keys_larger_than_its_memory_is_refused)
{
	uint32_t entry = sizeof(struct station_key);
	struct station st = { 0 };

	station_open(&st);
	check(welcome(&st, STATION_KEYS, STATION_KEYS * entry));
	check(!welcome(&st, STATION_KEYS + 1, STATION_KEYS * entry));
	check(!welcome(&st, UINT32_MAX, STATION_KEYS * entry));
	check(welcome(&st, 2 * STATION_KEYS, 2 * STATION_KEYS * entry));
	station_close(&st);
}

/* To write to an eventfd may last for ever: its owner has filled it, and taken O_NONBLOCK away. */
TEST(a_doorbell_of_a_process_that_may_not_trace_us_is_not_touched)
{
	uint32_t m[MESSAGE / 4] = { 0x73687063, HOST_LAYOUT, FETCHES };
	int bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	struct station st = { 0 };
	struct stranger x;
	uint64_t count;

	station_open(&st);
	come(&st, STATION_KEYS, STATION_KEYS * sizeof(struct station_key), &x);
	check(hear(&x));
	check(x.out != NULL);
	say(x.conn, m, &bell, 1);
	turns(&st);
	x.page->mode = HOST_ARMED;
	store_release(&x.out->want, RING_WANT_SPACE);
	turns(&st);
	check(read(bell, &count, sizeof(count)) < 0);
	check_eq(hear(&x), RUNG);
	close(x.conn);
	close(x.name);
	turns(&st);
	close(bell);
	station_close(&st);
}

/* It leaves our HELLO unread, begins by itself, and ends its handshake behind our deadline. */
TEST(a_peer_that_comes_late_is_reached)
{
	struct stranger x = { .slot = 0 };
	struct station st = { 0 };
	struct dest *d;
	struct seg s;

	while (host_name_bind(x.slot, &x.name)) /* below the station's: its HELLO goes first */
		x.slot++;
	station_open(&st);
	check(x.slot < st.slot);
	s = empty(&st, x.slot << 14 | 2);
	d = station_dest(&st, s.dqpn);
	check_eq(dest_send(d, &s, NULL), EAGAIN);
	turns(&st);
	d->ops->put(d);
	st.ahead = HOST_CONTACT_NS / 2;
	say_hello(&st, STATION_KEYS, STATION_KEYS * sizeof(struct station_key), &x);
	turns(&st);
	check(hear(&x));
	st.ahead = HOST_CONTACT_NS + HOST_CONTACT_NS / 4;
	turns(&st);
	d = station_dest(&st, s.dqpn);
	check_eq(dest_send(d, &s, NULL), EAGAIN);
	say_ready(&x);
	turns(&st);
	check_eq(dest_send(d, &s, NULL), 0);
	d->ops->put(d);
	close(x.conn);
	close(x.name);
	turns(&st);
	station_close(&st);
}

static uint32_t resumed;

static void count_resumed(struct waiter *w)
{
	(void)w;
	resumed++;
}

struct clearing {
	struct ring_ctl *ctl;
	bool stop;
};

static void *clear_without_end(void *arg)
{
	struct clearing *c = arg;

	while (!load_relaxed(&c->stop))
		store_relaxed(&c->ctl->want, 0);
	return NULL;
}

/* A thread that was sent round by such a peer would stay inside its quiesce section, for which
 * ibv_dereg_mr() and exit() wait. */
TEST(a_peer_that_promises_space_and_takes_nothing_resumes_nobody)
{
	enum { SENDS = 20000 };
	struct waiter w = { .resume = count_resumed };
	struct clearing c = { 0 };
	struct station st = { 0 };
	struct stranger x;
	struct dest *d;
	struct seg s;
	pthread_t t;

	list_init(&w.node);
	station_open(&st);
	come(&st, STATION_KEYS, STATION_KEYS * sizeof(struct station_key), &x);
	check(hear(&x));
	d = station_dest(&st, x.slot << 14 | 2);
	s = empty(&st, x.slot << 14 | 2);
	while (still(!dest_send(d, &s, &w)))
		;
	store_release(&x.in->want, 0);
	check(!host_has_inbound(st.h)); /* an engine would look for ever */
	check_eq(x.in->want, RING_WANT_SPACE); /* an honest one may have told too early */
	c.ctl = x.in;
	check_eq(pthread_create(&t, NULL, clear_without_end, &c), 0);
	for (int i = 0; i < SENDS; i++) {
		check_eq(dest_send(d, &s, &w), EAGAIN);
		host_drain(st.h, 64);
		check(!host_has_inbound(st.h));
	}
	store_relaxed(&c.stop, true);
	pthread_join(t, NULL);
	check_eq(resumed, 0);
	store_release(&x.in->pos, RING_MIN / 2);
	host_drain(st.h, 64);
	check_eq(resumed, 1);
	d->ops->put(d);
	close(x.conn);
	close(x.name);
	turns(&st);
	station_close(&st);
}

static struct ring endless;

static void write_one(const struct station *st)
{
	struct seg s = empty(st, station_number(st));
	struct ring_plan plan;
	uint8_t *rec;

	ring_seg_plan(&s, false, &plan);
	if (!ring_reserve(&endless, plan.bytes, &rec))
		ring_publish(&endless, ring_seg_encode(&s, &plan, false, rec));
}

static void and_one_more(struct station *st, const struct seg *s)
{
	(void)s;
	write_one(st);
}

/* What a peer has written before it has left is delivered, but it may have left without ceasing. */
TEST(last_words_have_an_end)
{
	enum { MOST = 2 * RING_MAX / RING_LINE };
	struct station st = { .got = and_one_more };
	struct stranger x;

	station_open(&st);
	come(&st, STATION_KEYS, STATION_KEYS * sizeof(struct station_key), &x);
	check(hear(&x));
	check(x.out != NULL);
	ring_init(&endless, x.out, RING_MIN);
	write_one(&st);
	close(x.conn);
	while (still(!st.deaths))
		host_control(st.h, clock_now());
	check(st.count && st.count <= MOST);
	close(x.name);
	station_close(&st);
}

/* Sends twice, each time when it is told to. */
static int twice(int talk, void *arg)
{
	struct station st = { 0 };
	struct dest *d;
	struct seg s;

	(void)arg;
	station_open(&st);
	d = station_dest(&st, (uint32_t)child_hear(talk));
	s = empty(&st, 0);
	for (int i = 0; i < 2; i++) {
		if (station_send(&st, d, &s))
			return 1;
		child_tell(talk, 1);
		child_hear(talk);
	}
	return 0;
}

/* Each process of our user has the mail page; here the test itself writes there. */
TEST(a_ring_whose_mark_was_wiped_out_is_found)
{
	struct child c[HOST_DIRECT_PEERS + 2];
	const uint64_t n = sizeof(c) / sizeof(*c);
	struct station st = { 0 };

	station_open(&st);
	for (uint64_t i = 0; i < n; i++) {
		c[i] = child_start(twice, NULL);
		child_tell(c[i].talk, station_number(&st));
		station_until(&st, &st.count, i + 1);
		child_hear(c[i].talk);
	}
	check(load_relaxed(&st.h->page->mode) & HOST_MODE_MAIL);
	for (int i = 0; i < 1000; i++)
		station_turn(&st); /* the marks of the first segments go */
	for (uint64_t i = 0; i < n; i++) {
		child_tell(c[i].talk, 1);
		child_hear(c[i].talk);
	}
	memset(st.h->mail, 0, HOST_MAIL_BYTES);
	station_until(&st, &st.count, 2 * n);
	for (uint64_t i = 0; i < n; i++) {
		child_tell(c[i].talk, 1);
		check_eq(child_wait(&c[i]), 0);
	}
	station_close(&st);
}

/* What a peer sends is mapped only if nobody can cut it off under us. */
TEST(unsealed_memory_is_not_mapped)
{
	int fd = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *p;

	check_eq(ftruncate(fd, 4096), 0);
	check_eq(sealed_map(fd, 4096, true, &p), EPROTO);
	check_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	check_eq(sealed_map(fd, 8192, true, &p), EPROTO);
	check_eq(sealed_map(fd, 4096, true, &p), 0);
	munmap(p, 4096);
	close(fd);
}

/* Its pages are taken from a pool, perhaps an empty one; sizes and seals need none. */
TEST(memory_of_huge_pages_is_not_mapped)
{
	int fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
	struct stat st;
	void *p;

	if (fd < 0)
		skip(); /* this kernel has none */
	check_eq(fstat(fd, &st), 0);
	check_eq(ftruncate(fd, st.st_blksize), 0);
	check_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	check_eq(sealed_map(fd, (size_t)st.st_blksize, true, &p), EPROTO);
	close(fd);
}

TEST(published_memory_cannot_be_mapped_writable_by_others)
{
	void *p;
	int fd;

	check_eq(sealed_make("page", 4096, SEALED_READONLY, &fd, &p), 0);
	check(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED);
	check(ftruncate(fd, 0) < 0);
	sealed_unmap(p, 4096);
	close(fd);
}

TEST(a_peer_cannot_seal_memory_that_others_are_to_write)
{
	void *p, *theirs;
	int fd;

	check_eq(sealed_make("mail", 4096, SEALED_SPARSE, &fd, &p), 0);
	check(fcntl(fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE) < 0);
	check_eq(sealed_map(fd, 4096, true, &theirs), 0);
	sealed_unmap(theirs, 4096);
	sealed_unmap(p, 4096);
	close(fd);
}

RUN_TESTS(unit_test(random_bytes_in_a_ring_end_that_contact_and_nothing_else),
	  unit_test(nonsense_in_the_handshake_is_refused_without_leaks),
	  unit_test(a_table_of_keys_larger_than_its_memory_is_refused),
	  unit_test(a_doorbell_of_a_process_that_may_not_trace_us_is_not_touched),
	  unit_test(a_peer_that_comes_late_is_reached),
	  unit_test(a_peer_that_promises_space_and_takes_nothing_resumes_nobody),
	  unit_test(last_words_have_an_end), unit_test(a_ring_whose_mark_was_wiped_out_is_found),
	  unit_test(unsealed_memory_is_not_mapped), unit_test(memory_of_huge_pages_is_not_mapped),
	  unit_test(published_memory_cannot_be_mapped_writable_by_others),
	  unit_test(a_peer_cannot_seal_memory_that_others_are_to_write))
