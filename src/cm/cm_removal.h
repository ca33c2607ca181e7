// SPDX-License-Identifier: MIT
/* Devices whose interface is removed: the ids bound to them hear DEVICE_REMOVAL, once, and can only
 * be destroyed. Should an interface of that name come back, the device is there again. */
#pragma once

void cm_removal_begin(void); /* once after cm_start(), under cm.lock */
