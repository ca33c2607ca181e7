# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What people read: progress on stdout, trouble on stderr.

say()
{
	printf '==> %s\n' "$*"
}

warn()
{
	printf 'build.sh: %s\n' "$*" >&2
}

# die CODE MESSAGE...: 1 something failed, 2 the machine or the command line is not ready
die()
{
	local code=$1
	shift
	warn "$*"
	exit "$code"
}
