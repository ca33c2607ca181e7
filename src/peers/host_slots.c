// SPDX-License-Identifier: MIT
#include "peers/host_slots.h"
#include "peers/host_state.h"

unsigned int host_first_slot(const struct host *h)
{
	return h->listener[0].slot;
}

unsigned int host_company(const struct host *h)
{
	return load_relaxed(&h->ups);
}

bool host_is_alone(const struct host *h)
{
	return h->alone;
}

unsigned int host_slot_block(struct host *h, uint32_t number)
{
	uint32_t n = load_acquire(&h->n_slots);

	for (uint32_t i = 0; i < n; i++)
		if (h->listener[i].slot == number_slot(number))
			return i;
	return HOST_PAGE_SLOTS;
}

bool host_slot_is_ours(const struct host *h, unsigned int slot)
{
	for (uint32_t i = 0; i < load_acquire(&h->n_slots); i++)
		if (h->listener[i].slot == slot)
			return true;
	return false;
}
