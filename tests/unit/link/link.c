// SPDX-License-Identifier: MIT
/* What the protocol is told of a link: of one host, of the fault link, of a network. */
#include "test.h"
#include "link/link.h"

static const struct dest_net ends;

static struct dest network(uint32_t abilities)
{
	return (struct dest){ .net = &ends, .abilities = abilities };
}

TEST(no_destination_has_no_property)
{
	check(!link_is_lossless(NULL) && !link_has_notices(NULL) && !link_gathers_acks(NULL));
	check(!link_carries_acks(NULL) && !link_may_congest(NULL) && !link_is_of_packets(NULL));
	check(!link_reports_loss(NULL) && !link_ends(NULL));
}

TEST(a_host_keeps_all)
{
	const struct dest d = { .same_host = true };

	check(link_is_lossless(&d) && link_has_notices(&d) && link_gathers_acks(&d));
	check(link_carries_acks(&d));
	check(!link_may_congest(&d) && !link_is_of_packets(&d) && !link_reports_loss(&d));
}

TEST(a_lossy_link_of_a_host_promises_nothing)
{
	const struct dest d = { .abilities = DEST_REPORTS };

	check(!link_is_lossless(&d) && !link_has_notices(&d) && !link_gathers_acks(&d));
	check(!link_may_congest(&d) && !link_is_of_packets(&d) && !link_reports_loss(&d));
	check(link_carries_acks(&d));
}

TEST(a_network_congests_and_may_report)
{
	const struct dest plain = network(0), able = network(DEST_REPORTS);

	check(link_may_congest(&plain) && link_is_of_packets(&plain));
	check(!link_carries_acks(&plain) && !link_is_lossless(&plain));
	check(!link_reports_loss(&plain));
	check(link_reports_loss(&able));
	check(link_ends(&able) == &ends);
}

/* The trace wraps a destination: what the peer says meanwhile stands in the inner one. */
TEST(abilities_are_those_of_the_innermost)
{
	struct dest inner = network(DEST_REPORTS), outer = network(0);

	outer.inner = &inner;
	check(link_reports_loss(&outer));
}

RUN_TESTS(unit_test(no_destination_has_no_property), unit_test(a_host_keeps_all),
	  unit_test(a_lossy_link_of_a_host_promises_nothing),
	  unit_test(a_network_congests_and_may_report),
	  unit_test(abilities_are_those_of_the_innermost))
