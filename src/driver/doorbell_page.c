// SPDX-License-Identifier: MIT
#include "driver/doorbell_page.h"
#include <stdlib.h>
#include <string.h>
#include "driver/arms.h"
#include "engine/doorbell.h"
#include "engine/unrung.h"
#include "obs/explain.h"
#include "util/be.h"
#include "util/page_trap.h"
#include "util/quiesce.h"

enum { PAGE = 4096 };

/* The first 8 bytes of a WQE's control segment end with the number of its QP and a length. */
static uint32_t qpn_of(uint64_t value)
{
	return be32toh((uint32_t)(value >> 32)) >> 8;
}

/* That of an arm: as the record, and the number of its CQ. */
static uint32_t cqn_of(uint64_t value)
{
	return be32toh((uint32_t)(value >> 32)) & 0xffffff;
}

static bool rings(size_t at, uint64_t value)
{
	return at == DOORBELL_ARM ? arms_by_number(cqn_of(value))
				  : at >= DOORBELL_BLUE && doorbell_by_number(qpn_of(value));
}

/* A thread that has interrupted itself inside the library or malloc() may have their locks: the
 * engine thread does it. So too where the stack may be too small for a requester. A handler whose
 * signal is not blocked (SA_NODEFER) is only found inside a section. */
static void stored(size_t at, unsigned int bytes, uint64_t value, bool delicate)
{
	if (bytes != 8 || delicate || quiesce_inside() || !rings(at, value))
		unrung_soon();
	unrung_ask();
}

static enum unrung_spin spin_of(const char *how)
{
	if (!how || !*how)
		return UNRUNG_SPIN_IF_FREE;
	return strcmp(how, "spin") ? UNRUNG_SPIN_NEVER : UNRUNG_SPIN;
}

int doorbell_page(uint8_t **out)
{
	const char *how = secure_getenv("SOFTHCA_DOORBELL");

	*out = page_trap_make(PAGE, stored, !how || strcmp(how, "nap") != 0);
	unrung_spins(spin_of(how));
	return *out ? 0 : refuse_memory("mlx5dv_init_obj", PAGE);
}

bool doorbell_page_rings(void)
{
	return page_trap_closed();
}
