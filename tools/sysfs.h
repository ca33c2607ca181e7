// SPDX-License-Identifier: MIT
/* What /sys/class says of the HCA: the attributes, read from the same code as the libraries use,
 * and the tree of files that clients and diagnostic tools look at, laid out as the kernel lays out
 * a PCI device with the mlx5 driver. A picture of the moment it was written. */
#pragma once
#include <stdint.h>

#define SYSFS_HOME	  ".softhca" /* in /sys/class: where the device's own folder lies */
#define SYSFS_UVERBS_NODE "/dev/null" /* what /dev/infiniband/uverbsN is: readable, writable */

struct sysfs_host;

/* Reads the devices that SOFTHCA_DEVICES or the default rule names. ENODEV: there is none. */
int sysfs_host_read(struct sysfs_host **out);
void sysfs_host_free(struct sysfs_host *host); /* NULL is fine */
unsigned int sysfs_host_devices(const struct sysfs_host *host);
/* The name of device @i, and of its interface. */
const char *sysfs_host_name(const struct sysfs_host *host, unsigned int i, const char **netdev);

/* Adds SYSFS_HOME, infiniband and infiniband_verbs to the folder @dir; equal files give an equal
 * @sum (NULL is fine). Positive errno. */
int sysfs_write(const struct sysfs_host *host, int dir, uint64_t *sum);
