#!/bin/sh
# SPDX-License-Identifier: MIT
# clang-tidy, with the checks of .clang-tidy, over src and tools.
# traits: alone timeout=900
set -eu
cd "$(dirname "$0")/../.."
command -v clang-tidy >/dev/null || {
	echo "SKIP: clang-tidy is not installed"
	exit 77
}
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
# what only gcc knows
sed -E 's/ -(mstringop-strategy|flto)=[a-z_]*//g; s/ -ffat-lto-objects//' \
	"$SOFTHCA_BUILD/compile_commands.json" >"$commands/compile_commands.json"
find src tools -name '*.c' -print0 |
	xargs -0r -P 2 -n 4 clang-tidy -p "$commands" --quiet
