# shellcheck shell=sh disable=SC2034 # those who source it use softhca and tmp
# SPDX-License-Identifier: MIT
# Sourced by the tests of the tool: $softhca, a folder $tmp of the test's own, fail, skip, equal.
set -eu
if [ -n "${SOFTHCA_PREFIX:-}" ]; then
	softhca=$SOFTHCA_PREFIX/bin/softhca
else
	softhca=${SOFTHCA_BUILD:?says where the tool was built}/softhca
fi
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
unset SOFTHCA_DEVICES LD_LIBRARY_PATH

fail() {
	echo "FAIL: $*"
	exit 1
}

skip() {
	echo "SKIP: $*"
	exit 77
}

equal() { # WHAT EXPECTED FOUND
	[ "$2" = "$3" ] || fail "$1: expected '$2', found '$3'"
}

# Tests of the view are of no use where an ordinary user gets none.
need_view() {
	[ "$(id -u)" = 0 ] || unshare -Um true 2>/dev/null ||
		skip "user namespaces are forbidden here"
}
