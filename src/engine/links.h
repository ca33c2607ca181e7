// SPDX-License-Identifier: MIT
/* The node's links (link/links.h). link[0] is this host's and always open; the others are networks,
 * which the first QP that needs one opens, all together. Only node.c names what they are.
 *
 * links_add() is called while the node is made; any thread may call the rest at any time. Networks
 * that are not open are left alone by all functions but links_open() and links_dest(). */
#pragma once
#include "engine/node_state.h"

enum { LINKS_BUDGET = 64 }; /* segments of one link in one drain */

void links_add(struct node *n, struct link *l);
int links_open(struct node *n); /* an errno with a reason: some network cannot be opened */
bool links_are_open(const struct node *n); /* all of them */

/* A destination through the first network that knows the path; one reference. */
int links_dest(struct node *n, const struct link_path *to, struct dest **out);
/* As link_net_ops.listen() on each. EADDRINUSE: on some network another program has the port. */
int links_listen(struct node *n, const union ibv_gid *local, uint32_t ifindex);
bool links_again(struct node *n);
void links_tidy(struct node *n);
int links_join(struct node *n, const union ibv_gid *group, const void *owner, uint32_t ifindex);
void links_part(struct node *n, const union ibv_gid *group, const void *owner);
int links_knock(struct node *n, const struct link_path *to); /* as link_net_ops.knock() */
/* As link_net_ops.returns_fd() of the first network that has one: -1 none; and its next packet. */
int links_returns_fd(struct node *n);
bool links_returned(struct node *n, struct link_return *out);
void links_leave(struct node *n); /* in a forked child, of the parent's node */

/* For a poll that has found @got segments of this host: drains the networks, but only now and then
 * while @got is not 0 (docs/design/polling.md). Returns how many segments came. */
unsigned int links_poll(struct node *n, unsigned int got);
/* Drains them now: all their sources, or those at which polls look (link/links.h); as above. */
enum links_sources { LINKS_POLLED, LINKS_ALL };
unsigned int links_drain(struct node *n, enum links_sources which);
/* Delivers all segments that networks have brought. False: another thread is doing so, and one that
 * it has not delivered yet may be the answer that a timer waits for. */
bool links_catch_up(struct node *n);
/* Does a thread deliver what a network has brought, at this moment? Then it does the engine's work:
 * timers wait for it, and packets need not wake another one. */
bool links_delivering(struct node *n);
/* @on: packets from networks wake the engine thread, which alone calls this. Off while the program
 * polls, and so reads the networks itself. */
void links_watch(struct node *n, bool on);
/* Sleeps until packets wait in a network, or @also is readable, at most @ns. False: neither. */
bool links_wait(struct node *n, int also, uint64_t ns);
/* ns: when links_tend() is to be called; UINT64_MAX: never. */
uint64_t links_deadline(struct node *n);
void links_tend(struct node *n, uint64_t now); /* contacts, deaths, growing rings */
/* The same when it is due now: for a thread that was woken by the doorbell, which is rung for
 * these, too. */
void links_chores(struct node *n);
