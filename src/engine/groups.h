// SPDX-License-Identifier: MIT
/* Multicast datagrams: each QP of a group gets once each one that comes to its device's interface.
 * Processes of the same user on this host exchange them by the host's link, which loses none; all
 * other members are reached, and reach this process, by the networks. */
#pragma once
#include "engine/node_state.h"

int groups_attach(struct tqp *q, const union ibv_gid *gid, bool attach); /* as the verbs do */
/* Somebody is about to send to groups: a program may post, and destroy its queue pair at once. */
void groups_meet(struct node *n);
int groups_send(struct tqp *q, const struct seg *s); /* as tqp_env.cast */
void groups_deliver(struct node *n, const struct seg *s); /* SEG_MCAST; in a drain */
/* The device's interface has changed, or what could not be joined is tried again. True: some group
 * is to be tried later (port_wait.h). */
bool groups_follow(struct device *d);
