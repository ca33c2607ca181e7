#!/bin/sh
# SPDX-License-Identifier: MIT
# Every script as shellcheck likes it; off: what sourced parts give to each other.
set -eu
cd "$(dirname "$0")/../.."
command -v shellcheck >/dev/null || {
	echo "SKIP: shellcheck is not installed"
	exit 77
}
find scripts ci src tests tools -name '*.sh' -print0 |
	xargs -0 shellcheck -x -S warning -e SC2034,SC2148,SC2154 build.sh .ci/run
