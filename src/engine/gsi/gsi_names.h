// SPDX-License-Identifier: MIT
/* Owners of ports of connection management. The process that has bound the abstract SEQPACKET name
 * of port space, port and address, or of a wildcard, owns the port until it closes the socket or
 * dies. If it listens it gets connections there, and in them MADs (struct gsi_mad). All users share
 * the ports. A process also has a name of its own; it is believed only if the process has the slot
 * in it, too. */
#pragma once
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

enum gsi_any { GSI_ADDRESS, GSI_ANY4, GSI_ANY6 };

struct gsi_port {
	uint32_t ps; /* enum rdma_port_space */
	uint16_t port; /* host order */
	enum gsi_any any;
	union ibv_gid addr; /* GSI_ADDRESS: IPv4 as ::ffff:a.b.c.d */
};

enum { GSI_BACKLOG = 4096 };

/* A socket that has the name. EADDRINUSE: another has it. It does not listen yet. */
int gsi_name_bind(const struct gsi_port *p, int *fd);
/* A connection to the owner, which listens. ECONNREFUSED: no process does; EAGAIN: its queue is
 * full. */
int gsi_name_connect(const struct gsi_port *p, int *fd);
/* Which other user's process has the name. EPERM: it is of our own user; ECONNREFUSED: none
 * listens; EAGAIN: its queue is full. */
int gsi_name_owner(const struct gsi_port *p, uint32_t *uid);
/* The same for the process that listens on the address, else on the wildcard of its family. On the
 * wildcard at once if that is our own user's or root's and the address a stranger's, who has taken
 * it behind the wildcard's back. */
int gsi_port_connect(uint32_t ps, uint16_t port, const union ibv_gid *addr, int *fd);
/* The name of a process as such; listens. Where another user has it: one that its own user's
 * processes find, but for those that have looked for one in vain within the last two seconds.
 * EAGAIN of gsi_process_connect(): too many are looked for. */
int gsi_process_bind(unsigned int slot, int *fd);
int gsi_process_connect(unsigned int slot, int *fd);
/* Sends a message to the process that has @slot, or to the owner of the port; to this process
 * itself by gsi_own.h. ECONNREFUSED: no process takes it; EAGAIN: no room, or too many are looked
 * for. */
int gsi_process_say(unsigned int slot, const void *m, size_t len);
int gsi_port_say(uint32_t ps, uint16_t port, const union ibv_gid *addr, const void *m, size_t len);
/* The name of a block of ephemeral ports. EADDRINUSE: another process has it. */
int gsi_block_bind(uint32_t ps, unsigned int block, int *fd);
