#!/bin/sh
# SPDX-License-Identifier: MIT
# clang-tidy, with the checks of .clang-tidy, over src and tools.
# traits: alone timeout=420
set -eu
cd "$(dirname "$0")/../.."
command -v clang-tidy >/dev/null || {
	echo "SKIP: clang-tidy is not installed"
	exit 77
}
find src tools -name '*.c' -print0 |
	xargs -0r -P 2 -n 4 clang-tidy -p "$SOFTHCA_BUILD" --quiet
