// SPDX-License-Identifier: MIT
/* Random numbers where a filter of system calls refuses to give them: in processes of their own,
 * since a filter stays. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "test.h"
#include "util/secret.h"

enum { LEN = 64, NONE = -1 };

/* @a and @b fail with ENOSYS. */
static void refuse_calls(int a, int b)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)a, 1, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)b, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(code[0]), code };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(100);
}

static int fill(void)
{
	uint8_t a[LEN] = { 0 }, b[LEN] = { 0 }, zero[8] = { 0 };
	int err = secret_fill(a, LEN);

	if (!err)
		err = secret_fill(b, LEN);
	if (!err && (!memcmp(a, b, LEN) || !memcmp(a + LEN - 8, zero, 8)))
		err = EIO;
	return err;
}

/* What fill() returns in a process without these calls. */
static int without(int a, int b)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		refuse_calls(a, b);
		_exit(fill());
	}
	check_eq(waitpid(pid, &status, 0), pid);
	check(WIFEXITED(status));
	return WEXITSTATUS(status);
}

TEST(numbers_come_from_the_kernel)
{
	uint64_t n = 0;

	check_eq(fill(), 0);
	check_eq(secret_number(&n), 0);
	check(n);
}

TEST(a_device_gives_them_where_the_call_is_refused)
{
	check_eq(without(SYS_getrandom, NONE), 0);
}

TEST(where_both_are_refused_that_is_said)
{
	check_eq(without(SYS_getrandom, SYS_openat), ENOSYS);
}

RUN_TESTS(unit_test(numbers_come_from_the_kernel),
	  unit_test(a_device_gives_them_where_the_call_is_refused),
	  unit_test(where_both_are_refused_that_is_said))
