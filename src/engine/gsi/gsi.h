// SPDX-License-Identifier: MIT
/* QP 1 of the process. A process that reads a MAD from a network hands it to the process it is for:
 * the one whose slot is in the receiver's comm id, or, for a REQ or SIDR_REQ, the owner of the port
 * (gsi_names.h). It keeps no state. A MAD that no process takes is answered on behalf of the host:
 * by REJ 8, SIDR_REP 1, or DREP. A process needs no connection manager for that.
 * Threads: any; gsi_packet() inside a quiesce section. */
#pragma once
#include "engine/node_state.h"
#include "wire/cm_msg.h"

/* A MAD between processes of a host, as it passes through a socket. */
struct gsi_mad {
	uint32_t magic; /* GSI_MAGIC */
	uint32_t net; /* 1: read from a network, or to be sent there */
	uint32_t ifindex; /* of link-local addresses */
	uint32_t lossy; /* 1: its sender, of this host, loses messages (SOFTHCA_FAULT) */
	union ibv_gid from, to; /* its sender's and its receiver's address */
	uint8_t mad[MAD_LEN];
};

enum { GSI_MAGIC = 0x73636d31 };

/* Instead of a MAD: the owner of a port has no room for the connection, which it closes; its other
 * end asks again. One byte; the end of a connection without it is its owner's death. */
enum { GSI_BUSY = 0x62 };

/* The slot of the process whose comm id @id is. */
static inline unsigned int gsi_slot(uint32_t id)
{
	return id >> 22;
}

void gsi_packet(struct node_link *from, const struct seg *s);
/* Is one more answer to the network allowed that is without state (REJ, SIDR_REP, DREP), or to a
 * repeated request? The addresses of those that ask may be forged: a process sends 1000 in a
 * second, and lets the rest ask again. */
bool gsi_may_answer(void);
/* Sends @m through the network. *@softhca (may be NULL): is that host known to run softhca? An
 * errno with a reason: no path leads there. */
int gsi_send(struct node *n, const struct gsi_mad *m, bool *softhca);
/* Is the host at m->to known to run softhca? Asks it if nothing is known yet, and always with
 * @wake, which makes the kernel look for its link address. */
bool gsi_knock(struct node *n, const struct gsi_mad *m, bool wake);
/* Readable when MADs came back: the network's descriptor, for epoll. -1: there is none. */
int gsi_returns_fd(struct node *n);
/* The next MAD that came back, as it was sent, with the errno that tells why: ECONNREFUSED (no
 * process of the host has the port), EHOSTUNREACH, … False: no more. */
bool gsi_returned(struct node *n, struct gsi_mad *out, int *error);
/* MADs to the addresses of @hca reach this process from now on. */
void gsi_listen(const struct hca *hca);
