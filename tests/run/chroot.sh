#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: root
# A chroot whose root is no mount point has its view by mounts; one whose /sys and /dev are none
# either, by copied files.
# shellcheck source=tests/run/prelude.sh disable=SC2016 # scripts for other shells
. "$(dirname "$0")/prelude.sh"
export SOFTHCA_DEVICES=mlx5_0=lo XDG_RUNTIME_DIR=/dev/shm
# The file with ThreadSanitizer's suppressions is outside of the chroot, and not needed inside.
TSAN_OPTIONS=$(printf %s "${TSAN_OPTIONS:-}" | sed 's/:suppressions=[^:]*//')
export TSAN_OPTIONS
root=$tmp/root
home=$(dirname "$(dirname "$(readlink -f "$softhca")")")
mkdir -p "$root$home" "$root/tmp"

# In a mount namespace that ends with it: nothing is mounted where the trap removes files.
within() { # FOLDERS COMMAND: with these folders of the machine as mounts
	unshare -m sh -euc 'root=$1 home=$2 folders=$3
		for name in $folders bin lib lib64 sbin usr etc proc; do
			[ -e "/$name" ] || continue
			mkdir -p "$root/$name"
			mount --rbind "/$name" "$root/$name"
		done
		mount --bind "$home" "$root$home"
		shift 3
		exec chroot "$root" "$@"' sh "$root" "$home" "$@"
}
look='cat /sys/class/infiniband/mlx5_0/node_type && ls /dev/infiniband &&
	grep -Ec " /(dev|sys/class) .* - tmpfs softhca " /proc/self/mountinfo || :'
softhca=$(readlink -f "$softhca")

within "sys dev" "$softhca" run sh -c "$look" >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
equal "by mounts" "1: CA uverbs0 2 " "$(tr '\n' ' ' <"$tmp/out")"
root=$tmp/bare
mkdir -p "$root$home" "$root/tmp" "$root/sys/class" "$root/dev/shm"
: >"$root/dev/null"
within "" "$softhca" run sh -c "$look" >"$tmp/out" 2>&1 || fail "$(cat "$tmp/out")"
equal "by files" "1: CA uverbs0 0 " "$(tr '\n' ' ' <"$tmp/out")"
