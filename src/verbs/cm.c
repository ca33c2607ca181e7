// SPDX-License-Identifier: MIT
#include "cm/cm.h"
#include "verbs/export.h"

EXPORT const struct cm_calls *softhca_cm(void)
{
	return cm_table();
}
