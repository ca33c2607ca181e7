#!/bin/sh
# SPDX-License-Identifier: MIT
# Unmodified programs that resolve every symbol when they start find all of them in our libraries:
# pyverbs (all of its modules), perftest, and each provider library, some of which come with both.
set -eu
export LD_LIBRARY_PATH="$SOFTHCA_LIB" LD_BIND_NOW=1
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" # the programs' are not ours
failed=0
ran=0

# command...: starts (the exit code is its own business), and maps no libibverbs but ours
loads() {
	ran=$((ran + 1))
	LD_DEBUG=libs LD_PRELOAD="${SOFTHCA_PRELOAD:-}" "$@" >"$tmp/out" 2>"$tmp/err" || true
	# a sanitizer's runtime and libudev look for more functions than there are
	if grep -v '/lib\([a-z]*san\|udev\)\.so' "$tmp/err" |
		grep 'symbol lookup error\|undefined symbol\|not found (required'; then
		echo "FAIL: $*"
		failed=1
	fi
	if grep 'calling init: .*/libibverbs\.so' "$tmp/err" | grep -v -F ": $SOFTHCA_LIB/"; then
		echo "FAIL: $*: another libibverbs than ours was loaded"
		failed=1
	fi
}

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if test -d /usr/lib/python3/dist-packages/pyverbs; then
	for so in $(cd /usr/lib/python3/dist-packages && find pyverbs -name '*.so'); do
		module=$(echo "${so%%.*}" | tr / .)
		case $module in
		*mlx4* | *mana*) continue ;; # linked with other providers' libraries
		esac
		loads /usr/bin/python3 -c "import $module; print('Version')"
		grep -q Version "$tmp/out" || { echo "FAIL: import $module"; failed=1; }
	done
fi
system=$(dirname "$(ldconfig -p | awk '$1 == "libibverbs.so.1" { print $NF; exit }')")
for so in "$system"/libibverbs/*.so; do # the providers
	test -e "$so" || continue
	loads /usr/bin/python3 -c \
		"import ctypes, os; ctypes.CDLL('$so', os.RTLD_NOW); print('Version')"
	grep -q Version "$tmp/out" || { tail -n 1 "$tmp/err"; echo "FAIL: $so"; failed=1; }
done
for tool in ib_write_bw ib_send_lat ib_read_bw ib_atomic_bw raw_ethernet_bw; do
	command -v $tool >/dev/null || continue
	loads $tool --version
	grep -q Version "$tmp/out" || { echo "FAIL: $tool --version printed none"; failed=1; }
done
test $ran -gt 0 || { echo "SKIP: neither pyverbs nor perftest is installed"; exit 77; }
echo "$ran programs and modules tried"
exit $failed
