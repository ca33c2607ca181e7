// SPDX-License-Identifier: MIT
#include "udp/udp_link.h"
#include <stdlib.h>

struct udp_link {
	struct link link; /* first */
	struct udp_config cfg;
	struct udp *udp; /* from open() on */
};

static struct udp *of(struct link *l)
{
	return ((struct udp_link *)l)->udp;
}

static int open_link(struct link *l)
{
	struct udp_link *u = (struct udp_link *)l;

	return udp_create(&u->cfg, &u->udp);
}

static struct udp_path path(const struct link_path *to)
{
	return (struct udp_path){ .net = to->net,
				  .ifindex = to->ifindex,
				  .mtu = to->mtu,
				  .lqpn = to->lqpn,
				  .rqpn = to->rqpn,
				  .flow_label = to->flow_label,
				  .sport = to->sport,
				  .wish = to->wish,
				  .tclass = to->tclass,
				  .hop_limit = to->hop_limit };
}

static int dest(struct link *l, const struct link_path *to, struct dest **out)
{
	const struct udp_path p = path(to);

	return udp_dest(of(l), &p, out);
}

static int knock(struct link *l, const struct link_path *to)
{
	const struct udp_path p = path(to);

	return udp_knock(of(l), &p);
}

static int returns_fd(struct link *l)
{
	return udp_returns_fd(of(l));
}

static bool returned(struct link *l, struct link_return *out)
{
	return udp_returned(of(l), out);
}

static unsigned int drain(struct link *l, unsigned int budget, bool all)
{
	return udp_drain(of(l), budget, all);
}

static bool catch_up(struct link *l)
{
	return udp_catch_up(of(l));
}

static bool delivering(struct link *l)
{
	return udp_delivering(of(l));
}

static int fd(struct link *l)
{
	return udp_fd(of(l));
}

static int hear(struct link *l, const union ibv_gid *local, uint32_t ifindex)
{
	return udp_listen(of(l), local, ifindex);
}

static bool again(struct link *l)
{
	return udp_again(of(l));
}

static void tidy(struct link *l)
{
	udp_tidy(of(l));
}

static int join(struct link *l, const union ibv_gid *group, const void *owner, uint32_t ifindex)
{
	return udp_join(of(l), group, owner, ifindex);
}

static void part(struct link *l, const union ibv_gid *group, const void *owner)
{
	udp_part(of(l), group, owner);
}

static void astray(struct link *l)
{
	udp_astray(of(l));
}

static void leave(struct link *l)
{
	udp_leave(of(l));
}

static const struct link_net_ops net_ops = {
	.listen = hear,
	.again = again,
	.tidy = tidy,
	.join = join,
	.part = part,
	.astray = astray,
	.knock = knock,
	.catch_up = catch_up,
	.delivering = delivering,
	.returns_fd = returns_fd,
	.returned = returned,
	.leave = leave,
};

struct link *udp_link(const struct udp_config *cfg)
{
	struct udp_link *u = malloc(sizeof(*u));

	if (!u)
		return NULL;
	*u = (struct udp_link){ .link = { .name = "udp",
					  .open = open_link,
					  .dest = dest,
					  .drain = drain,
					  .fd = fd,
					  .net = &net_ops },
				.cfg = *cfg };
	return &u->link;
}
