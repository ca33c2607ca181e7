// SPDX-License-Identifier: MIT
/* Preloaded into an unmodified program: nobody may ptrace it or reach its memory by pid. It must
 * happen inside, since execve makes a process dumpable again. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>

__attribute__((constructor)) static void undumpable(void)
{
	if (!getenv("SOFTHCA_UNDUMPABLE"))
		return;
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)) {
		perror("prctl");
		exit(1);
	}
}
