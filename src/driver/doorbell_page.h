// SPDX-License-Identifier: MIT
/* The page into which programs store to ring a doorbell without a call; mlx5dv_init_obj(3) tells
 * its address (bf.reg, cq_uar). A store of 8 bytes at DOORBELL_BLUE or behind it names a QP by its
 * second half, and rings its send queue in the storing thread, as a call would; one at DOORBELL_ARM
 * names a CQ, which is armed there. Every other one makes the engine thread look at all records at
 * once (unrung.h).
 * docs/design/memory-doorbells.md
 *
 * SOFTHCA_DOORBELL=nap leaves everything to the engine thread, and so does spin, which makes it
 * look all the time while there is work (own_core.h). trap: each store rings. Not set: as spin
 * while a core is free, else as trap. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

enum { /* offsets in the page; PRM, UAR page format */
       DOORBELL_ARM = 0x20,
       DOORBELL_BLUE = 0x800, /* of a QP's doorbell */
};

int doorbell_page(uint8_t **out); /* the process' page, which stays. ENOMEM, with a reason */
bool doorbell_page_rings(void); /* are stores noticed? */
