#!/bin/sh
# SPDX-License-Identifier: MIT
# clang-format agrees with every C file.
set -eu
cd "$(dirname "$0")/../.."
command -v clang-format >/dev/null || {
	echo "SKIP: clang-format is not installed"
	exit 77
}
find src tools tests \( -name '*.c' -o -name '*.h' \) -print0 |
	xargs -0r clang-format --dry-run --Werror
