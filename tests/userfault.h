// SPDX-License-Identifier: MIT
/* Memory whose pages do not come until somebody answers: userfaultfd(2), for accesses of the kernel
 * too, which not every process may have. */
#pragma once
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* A descriptor, ready for UFFDIO_REGISTER; -1: the kernel does not let this process have one. */
static inline int userfault_open(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC), dev;

	if (fd < 0) {
		dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
		if (dev < 0)
			return -1;
		fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
		close(dev);
	}
	if (fd >= 0 && ioctl(fd, UFFDIO_API, &api)) {
		close(fd);
		return -1;
	}
	return fd;
}
