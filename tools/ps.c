// SPDX-License-Identifier: MIT
/* softhca ps: the processes of this user on this host, their QPs, and what each QP waits for. */
#include <stdio.h>
#include <string.h>
#include "hca/qp_names.h"
#include "shown.h"
#include "softhca.h"

static void print_qp(const struct shown_list *l, const struct show_qp *q)
{
	char peer[96], wait[SHOW_TEXT + 64];

	printf("  0x%-6x %-8s %-5s  %-28s %6u %6u  %s\n", q->qpn, qp_type_name(q->type),
	       qp_state_name(q->state), shown_peer(l, q, peer, sizeof(peer)), q->sends, q->receives,
	       shown_wait(q, wait, sizeof(wait)));
}

static void print_process(const struct shown_list *l, const struct shown *s)
{
	if (s->err) {
		printf("%d %s: %s\n", (int)s->pid, s->program, shown_why(s->err));
		return;
	}
	printf("%d %s: %u QP%s\n", (int)s->pid, s->program, s->count, s->count == 1 ? "" : "s");
	for (uint32_t i = 0; i < s->count; i++)
		print_qp(l, &s->qp[i]);
}

int cmd_ps(int argc, char **argv)
{
	struct shown_list list;
	int err;

	if (argc > 1) {
		complain("%s takes no argument", argv[0]);
		return EXIT_USAGE;
	}
	err = shown_read(&list);
	if (err) {
		complain("processes are not found: %s", strerror(err));
		shown_free(&list);
		return 1;
	}
	if (list.n)
		printf("  %-8s %-8s %-5s  %-28s %6s %6s  %s\n", "QP", "TYPE", "STATE", "PEER",
		       "SENDS", "RECVS", "WAITS FOR");
	for (unsigned int i = 0; i < list.n; i++)
		print_process(&list, &list.at[i]);
	if (list.layout)
		printf("programs on another version of softhca (layout %u) are not shown: ask "
		       "the tool of that version\n",
		       list.layout);
	shown_free(&list);
	return 0;
}
