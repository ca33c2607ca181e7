// SPDX-License-Identifier: MIT
#include "net/unix_listeners.h"
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include "net/rtnl.h"

#define LISTENING 10 /* a state of the kernel's sockets: TCP_LISTEN */
#define SHOW_UID  0x40 /* UDIAG_SHOW_UID of Linux 5.3, which older headers lack */
#define ATTR_UID  7

enum { NAME_ROOM = sizeof(((struct sockaddr_un *)0)->sun_path) + 1 };

struct visit {
	void (*fn)(void *arg, const char *name, uint32_t uid);
	void *arg;
};

/* False: the name is not abstract, or has more zero bytes than the one in front. */
static bool take_name(const struct nlattr *attr, char name[NAME_ROOM])
{
	size_t n = attr ? mnl_attr_get_payload_len(attr) : 0;

	if (n < 2 || n > NAME_ROOM)
		return false;
	memcpy(name, (const char *)mnl_attr_get_payload(attr) + 1, n - 1);
	name[n - 1] = '\0';
	return *(const char *)mnl_attr_get_payload(attr) == '\0' && strlen(name) == n - 1;
}

static int visit(const struct nlmsghdr *msg, void *arg)
{
	const struct unix_diag_msg *m = mnl_nlmsg_get_payload(msg);
	const struct nlattr *attr, *uid = NULL, *bound = NULL;
	const struct visit *v = arg;
	char name[NAME_ROOM];

	if (msg->nlmsg_type != SOCK_DIAG_BY_FAMILY || !rtnl_has(msg, sizeof(*m)) ||
	    m->udiag_type != SOCK_SEQPACKET || m->udiag_state != LISTENING)
		return MNL_CB_OK;
	mnl_attr_for_each(attr, msg, sizeof(*m))
	{
		if (mnl_attr_get_type(attr) == ATTR_UID)
			uid = attr;
		else if (mnl_attr_get_type(attr) == UNIX_DIAG_NAME)
			bound = attr;
	}
	if (uid && mnl_attr_get_payload_len(uid) >= sizeof(uint32_t) && take_name(bound, name))
		v->fn(v->arg, name, rtnl_u32(uid));
	return MNL_CB_OK;
}

int unix_listeners(void (*fn)(void *arg, const char *name, uint32_t uid), void *arg)
{
	const struct unix_diag_req ask = { .sdiag_family = AF_UNIX,
					   .udiag_states = 1U << LISTENING,
					   .udiag_show = UDIAG_SHOW_NAME | SHOW_UID };
	struct visit v = { fn, arg };

	return rtnl_diag(&ask, sizeof(ask), visit, &v);
}
