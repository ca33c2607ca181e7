// SPDX-License-Identifier: MIT
/* What meson takes for the test fuzz_NAME: the program of the same folder that clang linked. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char self[4096], path[4200];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	(void)argc;
	if (n < 0)
		return 1;
	self[n] = '\0';
	snprintf(path, sizeof(path), "%s/libfuzzer_" FUZZ_NAME, dirname(self));
	execv(path, argv);
	perror(path);
	return 1;
}
