// SPDX-License-Identifier: MIT
/* rdma_getaddrinfo(3): what is known of a name, by the hints. /etc/hosts and /etc/services say what
 * the callers of this program have put there. */
#include "contract.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>

/* --- what was found --- */

static const char *eai_name(int eai)
{
	static const struct {
		int eai;
		const char *name;
	} all[] = {
		{ EAI_BADFLAGS, "EAI_BADFLAGS" },
		{ EAI_NONAME, "EAI_NONAME" },
		{ EAI_AGAIN, "EAI_AGAIN" },
		{ EAI_FAIL, "EAI_FAIL" },
		{ EAI_FAMILY, "EAI_FAMILY" },
		{ EAI_SOCKTYPE, "EAI_SOCKTYPE" },
		{ EAI_SERVICE, "EAI_SERVICE" },
		{ EAI_MEMORY, "EAI_MEMORY" },
		{ EAI_SYSTEM, "EAI_SYSTEM" },
		{ EAI_OVERFLOW, "EAI_OVERFLOW" },
		{ -5, "EAI_NODATA" },
		{ -9, "EAI_ADDRFAMILY" },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (all[i].eai == eai)
			return all[i].name;
	return "another number";
}

static void say_place(const char *what, const struct sockaddr *sa, socklen_t len)
{
	const union address *a = (const void *)sa;
	char text[INET6_ADDRSTRLEN] = "";
	bool v6;

	if (!sa && !len)
		return;
	if (!sa) {
		printf(" %s=none of %u B", what, len);
		return;
	}
	v6 = sa->sa_family == AF_INET6;
	if (v6 || sa->sa_family == AF_INET)
		inet_ntop(sa->sa_family,
			  v6 ? (const void *)&a->in6.sin6_addr : (const void *)&a->in.sin_addr,
			  text, sizeof(text));
	printf(" %s=%s family=%d port=%u in %u B", what, text, sa->sa_family,
	       ntohs(v6 ? a->in6.sin6_port : a->in.sin_port), len);
}

static void say_found(const struct rdma_addrinfo *r)
{
	for (; r; r = r->ai_next) {
		printf(" flags=%x family=%d type=%d ps=%x", (unsigned int)r->ai_flags, r->ai_family,
		       r->ai_qp_type, (unsigned int)r->ai_port_space);
		say_place("src", r->ai_src_addr, r->ai_src_len);
		say_place("dst", r->ai_dst_addr, r->ai_dst_len);
		if (r->ai_src_canonname)
			printf(" source's name %s", r->ai_src_canonname);
		if (r->ai_dst_canonname)
			printf(" destination's name %s", r->ai_dst_canonname);
		if (r->ai_route || r->ai_route_len)
			printf(" route of %zu", (size_t)r->ai_route_len);
		if (r->ai_connect || r->ai_connect_len)
			printf(" connect of %zu", (size_t)r->ai_connect_len);
		if (r->ai_next)
			printf(", then");
	}
	putchar('\n');
}

static void ask(const char *node, const char *service, const struct rdma_addrinfo *hints)
{
	struct rdma_addrinfo *r = NULL;
	int ret;

	errno = 0;
	ret = rdma_getaddrinfo(node, service, hints, &r);
	if (!ret) {
		say_found(r);
		rdma_freeaddrinfo(r);
	} else if (ret == -1) {
		printf(" -1, errno %s\n", errno_name(errno));
	} else {
		printf(" %s\n", eai_name(ret));
	}
}

/* --- what is asked --- */

struct flags {
	const char *name;
	int value;
};

static const struct flags flags[] = {
	{ "", 0 },
	{ " passive", RAI_PASSIVE },
	{ " numeric", RAI_NUMERICHOST },
	{ " without route", RAI_NOROUTE },
	{ " passive of its family", RAI_PASSIVE | RAI_FAMILY },
	{ " all", RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY },
	{ " unknown", 1 << 12 },
};

enum { FLAGS = sizeof(flags) / sizeof(flags[0]) };

static void by_service(void)
{
	static const int spaces[] = { 0, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB, RDMA_PS_IPOIB, 77 };
	static const int types[] = { 0,
				     IBV_QPT_RC,
				     IBV_QPT_UC,
				     IBV_QPT_UD,
				     IBV_QPT_XRC_SEND,
				     IBV_QPT_XRC_RECV,
				     IBV_QPT_RAW_PACKET,
				     77 };

	for (size_t s = 0; s < sizeof(spaces) / sizeof(spaces[0]); s++)
		for (size_t t = 0; t < sizeof(types) / sizeof(types[0]); t++)
			for (size_t f = 0; f < 2; f++) {
				struct rdma_addrinfo h = { .ai_flags = flags[f].value,
							   .ai_qp_type = types[t],
							   .ai_port_space = spaces[s] };

				printf("names space %x type %d%s:", (unsigned int)spaces[s],
				       types[t], flags[f].name);
				ask("10.9.0.1", "7471", &h);
			}
}

static void by_family(void)
{
	static const int families[] = { AF_UNSPEC, AF_INET, AF_INET6, AF_IB, AF_UNIX, 99 };
	static const char *const nodes[] = {
		"10.9.0.1",	"fd09::1",    "fe80::1%lo", "hca.example",
		"hca6.example", "no.example", "",	    NULL
	};

	for (size_t n = 0; n == 0 || nodes[n - 1]; n++)
		for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
			for (size_t f = 0; f < FLAGS; f++) {
				struct rdma_addrinfo h = { .ai_flags = flags[f].value,
							   .ai_family = families[i],
							   .ai_port_space = RDMA_PS_TCP };

				printf("names node %s family %d%s:", nodes[n] ? nodes[n] : "NULL",
				       families[i], flags[f].name);
				ask(nodes[n], "7471", &h);
			}
}

static void by_name_of_service(void)
{
	static const char *const services[] = { "0",	  "7471",     "65535", "65536", "-1", "",
						"stream", "datagram", "both",  "none",	NULL };
	static const int spaces[] = { 0, RDMA_PS_TCP, RDMA_PS_UDP, RDMA_PS_IB };

	for (size_t n = 0; n == 0 || services[n - 1]; n++)
		for (size_t s = 0; s < 4; s++) {
			struct rdma_addrinfo h = { .ai_port_space = spaces[s] };

			printf("names service %s space %x:", services[n] ? services[n] : "NULL",
			       (unsigned int)spaces[s]);
			ask("10.9.0.1", services[n], &h);
		}
	printf("names service without hints:");
	ask("10.9.0.1", "7471", NULL);
	printf("names node without hints:");
	ask("10.9.0.1", NULL, NULL);
	printf("names service alone:");
	ask(NULL, "7471", NULL);
	printf("names nothing:");
	ask(NULL, NULL, NULL);
}

/* Addresses, a route and data that the caller has. */
static struct rdma_addrinfo full_hints(unsigned int which)
{
	static union address src, dst;
	static char route[24], data[8];
	struct rdma_addrinfo h = { .ai_family = AF_INET, .ai_port_space = RDMA_PS_TCP };

	src = own_address(false, htons(1));
	dst = own_address(false, htons(2));
	if (which & 1) {
		h.ai_src_addr = &src.sa;
		h.ai_src_len = sizeof(src.in);
	}
	if (which & 2) {
		h.ai_dst_addr = &dst.sa;
		h.ai_dst_len = sizeof(dst.in);
	}
	if (which & 4) {
		h.ai_route = route;
		h.ai_route_len = sizeof(route);
		h.ai_connect = data;
		h.ai_connect_len = sizeof(data);
	}
	if (which & 8) {
		h.ai_src_canonname = "source.example";
		h.ai_dst_canonname = "destination.example";
	}
	return h;
}

static void by_hints(void)
{
	static const char *const nodes[] = { NULL, "10.9.0.1", "hca6.example" };

	for (unsigned int which = 0; which < 16; which++)
		for (size_t n = 0; n < 3; n++)
			for (size_t f = 0; f < FLAGS; f++) {
				struct rdma_addrinfo h = full_hints(which);

				h.ai_flags = flags[f].value;
				printf("names %s with%s%s%s%s%s%s:", nodes[n] ? nodes[n] : "none",
				       which & 1 ? " src" : "", which & 2 ? " dst" : "",
				       which & 4 ? " route" : "", which & 8 ? " canon" : "",
				       which ? "" : " nothing", flags[f].name);
				ask(nodes[n], nodes[n] ? "7471" : NULL, &h);
			}
}

void say_names(void)
{
	by_service();
	by_family();
	by_name_of_service();
	by_hints();
	rdma_freeaddrinfo(NULL);
}
