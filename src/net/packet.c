// SPDX-License-Identifier: MIT
#include "net/packet.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "util/be.h"
#include "util/uncancelled.h"

enum { MACS = 12, TAG = 4 };

static int set_up(int s, uint32_t ifindex, bool receive)
{
	struct packet_mreq promisc = { .mr_ifindex = (int)ifindex, .mr_type = PACKET_MR_PROMISC };
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_ifindex = (int)ifindex };
	const int one = 1;

	if (receive) {
		if (setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
		    setsockopt(s, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) ||
		    setsockopt(s, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &promisc, sizeof(promisc)))
			return errno;
		at.sll_protocol = htons(ETH_P_ALL); /* before this call no frame arrives */
	}
	return bind(s, (const struct sockaddr *)&at, sizeof(at)) ? errno : 0;
}

int packet_open(uint32_t ifindex, bool receive, int *fd)
{
	int s = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), err;

	if (s < 0)
		return errno;
	err = set_up(s, ifindex, receive);
	if (err) {
		close(s);
		return err;
	}
	*fd = s;
	return 0;
}

int packet_send(int fd, const uint8_t *frame, size_t len)
{
	ssize_t n;

	UNCANCELLED(n, send(fd, frame, len, MSG_DONTWAIT | MSG_NOSIGNAL));
	return n < 0 ? errno : 0;
}

/* What the kernel says about the frame, or NULL. */
static const struct tpacket_auxdata *auxdata(struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA)
			return (const struct tpacket_auxdata *)(void *)CMSG_DATA(c);
	return NULL;
}

static void put_tag_back(uint8_t *frame, size_t *len, const struct tpacket_auxdata *aux)
{
	uint16_t type =
		aux->tp_status & TP_STATUS_VLAN_TPID_VALID ? aux->tp_vlan_tpid : ETH_P_8021Q;

	memmove(frame + MACS + TAG, frame + MACS, *len - MACS);
	put_be16(frame + MACS, type);
	put_be16(frame + MACS + 2, aux->tp_vlan_tci);
	*len += TAG;
}

int packet_recv(int fd, uint8_t *frame, size_t size, size_t *len, bool *summed)
{
	union {
		struct cmsghdr align;
		uint8_t room[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	} control;
	struct iovec iov = { frame, size - TAG };
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	const struct tpacket_auxdata *aux;
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	if (n < 0)
		return errno;
	if (m.msg_flags & MSG_TRUNC)
		return EMSGSIZE;
	aux = auxdata(&m);
	*len = (size_t)n;
	*summed = aux && (aux->tp_status & TP_STATUS_CSUMNOTREADY);
	if (aux && (aux->tp_status & TP_STATUS_VLAN_VALID) && n >= MACS)
		put_tag_back(frame, len, aux);
	return 0;
}
