// SPDX-License-Identifier: MIT
/* The node's links (link/links.h). link[0] is this host's and always open; the others are networks,
 * which the first QP that needs one opens, all together. Only node.c names what they are.
 *
 * links_add() is called while the node is made; any thread may call the rest at any time. Where no
 * network is open, each function but links_open() and links_dest() does nothing. */
#pragma once
#include "engine/node_state.h"

void links_add(struct node *n, struct link *l);
int links_open(struct node *n); /* an errno with a reason: some network cannot be opened */

/* A destination through the first network that knows the path; one reference. */
int links_dest(struct node *n, const struct link_path *to, struct dest **out);
/* As link_net_ops.listen() on each. EADDRINUSE: on some network another program has the port. */
int links_listen(struct node *n, const union ibv_gid *local, uint32_t ifindex);
bool links_again(struct node *n, unsigned int *taken);
void links_tidy(struct node *n);
int links_join(struct node *n, const union ibv_gid *group, const void *owner, uint32_t ifindex);
void links_part(struct node *n, const union ibv_gid *group, const void *owner);
void links_rejoin(struct node *n, const void *owner, uint32_t ifindex);
void links_leave(struct node *n); /* in a forked child, of the parent's node */

/* A poll that @got segments from this host: looks at the networks, but where it had other work only
 * now and then (docs/design/polling.md). How many segments came. */
unsigned int links_poll(struct node *n, unsigned int got);
unsigned int links_drain(struct node *n); /* all that the networks hold */
/* While the program polls it reads the networks itself, and no packet is to wake the engine. The
 * engine thread's. */
void links_watch(struct node *n, bool on);
uint64_t
links_deadline(struct node *n); /* ns: links_tend() is to be called then; UINT64_MAX never */
void links_tend(struct node *n, uint64_t now); /* contacts, deaths, growing rings */
