// SPDX-License-Identifier: MIT
/* MADs of connection management: what parses is rebuilt to something that parses the same, in its
 * 256 bytes; so do the addresses in the private data. The input: the payload of a datagram to QP
 * 1, of any length. */
#include <string.h>
#include "fuzz.h"
#include "wire/cm_msg.h"

enum { MAX = MAD_LEN + 16 };

const struct fuzz_target fuzz_target = { "mad", MAX, 300000 };

static void addresses(const struct cm_msg *m)
{
	uint8_t built[CM_IP_LEN];
	struct cm_ip ip, again;

	if (cm_ip_parse(m->private_data, m->private_len, &ip))
		return;
	must(ip.version == 4 || ip.version == 6);
	cm_ip_build(&ip, built);
	must(!cm_ip_parse(built, sizeof(built), &again) && again.port == ip.port);
	must(!memcmp(built + 2, m->private_data + 2, sizeof(built) - 2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t built[MAD_LEN];
	struct cm_msg m, again;

	if (cm_parse(data, len, &m))
		return 0;
	must(len == MAD_LEN && cm_name(m.kind));
	must(m.private_len == cm_private_room(m.kind) && m.private_len <= CM_PRIVATE_MAX);
	must((m.qpn | m.psn | m.vendor_id | m.local_eecn | m.remote_eecn) <= 0xffffff);
	must(!cm_build(&m, built) && !cm_parse(built, sizeof(built), &again));
	must(!memcmp(&m, &again, sizeof(m)));
	addresses(&m);
	return 0;
}
