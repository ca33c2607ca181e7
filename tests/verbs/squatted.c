// SPDX-License-Identifier: MIT
/* Another user has bound the names by which processes come to the XRC domain of a file, or the one
 * that a member would have. The refusal names him. Needs root, who can become another user. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "link/number.h"
#include "peers/host_names.h"
#include "peers/host_page.h"
#include "peers/meeting.h"
#include "verbs/cases.h"
#include "verbs/said.h"

enum manner { LISTENS, SILENT, FULL };
enum { STRANGER = 65534, QUEUE = 8 };

static struct {
	struct peer_dev dev;
	int file;
	char name[72]; /* the domain's at the meeting point */
	unsigned int slot; /* of this process */
} near;

static void take(uint32_t uid, const char *name, enum manner how)
{
	int fd;

	want_eq(host_name_bind_any(uid, name, &fd), 0);
	if (how != SILENT)
		want_eq(listen(fd, how == FULL ? 0 : QUEUE), 0);
	while (how == FULL && !host_name_connect_any(uid, name, &fd))
		;
}

static bool is_the_stranger(void)
{
	return !setgroups(0, NULL) && !setgid(STRANGER) && !setuid(STRANGER);
}

/* Another user takes the names that are @stem and a number from @first up to @end, and has them
 * until the case ends. */
static void squat(const char *stem, unsigned int first, unsigned int end, enum manner how)
{
	uint32_t victim;
	char name[96], byte = 1;
	int talk[2];
	pid_t pid;

	want_eq(host_names_uid(&victim), 0);
	want_eq(pipe(talk), 0);
	pid = fork();
	want(pid >= 0);
	if (!pid) {
		if (!is_the_stranger())
			_exit(0);
		for (unsigned int k = first; k < end; k++) {
			snprintf(name, sizeof(name), "%s%u", stem, k);
			take(victim, name, how);
		}
		want_eq(write(talk[1], &byte, 1), 1);
		for (;;)
			pause();
	}
	close(talk[1]);
	if (read(talk[0], &byte, 1) != 1)
		case_skip("its user namespace has no other user, or a name could not be taken");
	close(talk[0]);
}

static unsigned int own_slot(void)
{
	struct ibv_qp_init_attr a = { .qp_type = IBV_QPT_RC, .cap = { 1, 1, 1, 1, 0 } };
	struct ibv_qp *qp;

	a.send_cq = a.recv_cq = ibv_create_cq(near.dev.ctx, 1, NULL, NULL, 0);
	qp = ibv_create_qp(near.dev.pd, &a);
	want(qp);
	return number_slot(qp->qp_num);
}

static void begin(void)
{
	struct stat st;

	said_begin();
	peer_open(&near.dev);
	near.slot = own_slot();
	near.file = memfd_create("domain", 0);
	want_eq(fstat(near.file, &st), 0);
	snprintf(near.name, sizeof(near.name), "xrcd.%s.%jx.%jx",
		 ibv_get_device_name(near.dev.ctx->device), (uintmax_t)st.st_dev,
		 (uintmax_t)st.st_ino);
}

static struct ibv_xrcd *domain(void)
{
	struct ibv_xrcd_init_attr a = { IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
					near.file, O_CREAT };

	return ibv_open_xrcd(near.dev.ctx, &a);
}

static void is_refused_at_the_doors(enum manner how)
{
	char who[40] = "who do not listen", stem[80];

	begin();
	snprintf(stem, sizeof(stem), "%s.new.", near.name);
	squat(stem, 0, MEETING_DOORS, how);
	want_null(domain(), EADDRINUSE);
	if (how != SILENT)
		snprintf(who, sizeof(who), "such as user id %d", STRANGER);
	said_want(SAID_NEAR,
		  "ibv_open_xrcd: other users, %s, have all %d names by which a process comes to "
		  "the file's XRC domain (softhca.%d.*.%s.new.*); have processes ended, or use "
		  "another network namespace",
		  who, MEETING_DOORS, HOST_LAYOUT, near.name);
}

static void another_user_has_all_doors(int how)
{
	is_refused_at_the_doors((enum manner)how);
}

/* One of them might be that of a process that is about to listen: it has 10 s. At full length. */
static void and_listens_at_none(int how)
{
	if (cases_full())
		is_refused_at_the_doors((enum manner)how);
}

static void another_user_has_all_doors_but_one(int how)
{
	char stem[80];

	begin();
	snprintf(stem, sizeof(stem), "%s.new.", near.name);
	squat(stem, 0, MEETING_DOORS - 1, (enum manner)how);
	want(domain());
}

static void another_user_has_the_members_name(int how)
{
	char who[48] = "another user, who does not listen,", stem[80];

	begin();
	snprintf(stem, sizeof(stem), "%s.", near.name);
	squat(stem, near.slot, near.slot + 1, (enum manner)how);
	want_null(domain(), EADDRINUSE);
	if (how != SILENT)
		snprintf(who, sizeof(who), "user id %d", STRANGER);
	said_want(SAID_NEAR,
		  "ibv_open_xrcd: %s has the name of this process in the file's XRC domain "
		  "(softhca.%d.*.%s.%u); have that user's process ended, or use another network "
		  "namespace",
		  who, HOST_LAYOUT, near.name, near.slot);
}

static const struct test_case cases[] = {
	CASE_ARG(another_user_has_all_doors, LISTENS),
	CASE_ARG(another_user_has_all_doors, FULL),
	CASE_ARG(and_listens_at_none, SILENT),
	CASE_ARG(another_user_has_all_doors_but_one, LISTENS),
	CASE_ARG(another_user_has_all_doors_but_one, SILENT),
	CASE_ARG(another_user_has_the_members_name, LISTENS),
	CASE_ARG(another_user_has_the_members_name, FULL),
	CASE_ARG(another_user_has_the_members_name, SILENT),
};

int main(void)
{
	return CASES_RUN(cases);
}
