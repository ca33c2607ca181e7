// SPDX-License-Identifier: MIT
#include "net/packet.h"
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "util/be.h"
#include "util/uncancelled.h"

enum { MACS = 12, TAG = 4 };
enum { GSO_UDP_L4 = 5 }; /* VIRTIO_NET_HDR_GSO_UDP_L4, since Linux 6.2 */

static int set_up(int s, uint32_t ifindex, bool receive)
{
	struct packet_mreq promisc = { .mr_ifindex = (int)ifindex, .mr_type = PACKET_MR_PROMISC };
	struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_ifindex = (int)ifindex };
	const int one = 1;

	if (receive) {
		if (setsockopt(s, SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof(one)) ||
		    setsockopt(s, SOL_PACKET, PACKET_AUXDATA, &one, sizeof(one)) ||
		    setsockopt(s, SOL_PACKET, PACKET_VNET_HDR, &one, sizeof(one)) ||
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

static void put_tag_back(uint8_t *frame, struct packet *p, const struct tpacket_auxdata *aux)
{
	uint16_t type =
		aux->tp_status & TP_STATUS_VLAN_TPID_VALID ? aux->tp_vlan_tpid : ETH_P_8021Q;

	memmove(frame + MACS + TAG, frame + MACS, p->len - MACS);
	put_be16(frame + MACS, type);
	put_be16(frame + MACS + 2, aux->tp_vlan_tci);
	p->len += TAG;
	p->sum_at += TAG;
}

/* False: merged in a way that is not known here. */
static bool described(const struct virtio_net_hdr *h, struct packet *p)
{
	switch (h->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) {
	case VIRTIO_NET_HDR_GSO_NONE:
		break;
	case VIRTIO_NET_HDR_GSO_TCPV4:
	case VIRTIO_NET_HDR_GSO_TCPV6:
		p->merged = IPPROTO_TCP;
		break;
	case GSO_UDP_L4:
		p->merged = IPPROTO_UDP;
		break;
	default:
		return false;
	}
	p->step = h->gso_size;
	p->unsummed = h->flags & VIRTIO_NET_HDR_F_NEEDS_CSUM;
	p->sum_at = h->csum_start;
	p->sum_offset = h->csum_offset;
	return true;
}

int packet_recv(int fd, uint8_t *buf, struct packet *out)
{
	union {
		struct cmsghdr align;
		uint8_t room[CMSG_SPACE(sizeof(struct tpacket_auxdata))];
	} control;
	struct virtio_net_hdr h;
	struct iovec iov[] = { { &h, sizeof(h) }, { buf, PACKET_ROOM - TAG } };
	struct msghdr m = { .msg_iov = iov,
			    .msg_iovlen = 2,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	const struct tpacket_auxdata *aux;
	struct packet p = { 0 };
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);

	if (n < 0)
		return errno == EINVAL ? EBADMSG : errno; /* EINVAL: @h has no words for it */
	if (n < (ssize_t)sizeof(h) || (m.msg_flags & MSG_TRUNC) || !described(&h, &p))
		return EBADMSG;
	p.len = (uint32_t)n - (uint32_t)sizeof(h);
	aux = auxdata(&m);
	if (aux && (aux->tp_status & TP_STATUS_VLAN_VALID) && p.len >= MACS)
		put_tag_back(buf, &p, aux);
	*out = p;
	return 0;
}
