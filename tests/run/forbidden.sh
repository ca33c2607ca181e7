#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# Where no namespace can be made the program still runs, and reads copies of the HCA's files
# (files.sh); where they cannot be written, one line says so.
# shellcheck source=tests/run/prelude.sh disable=SC2016 # scripts for a shell within the run
. "$(dirname "$0")/prelude.sh"
export XDG_RUNTIME_DIR="$tmp"
unshare -Ur true 2>/dev/null || skip "user namespaces are forbidden here, and cannot be allowed"

# Root of a user namespace in which no further one may be made, without a single capability.
forbid='echo 0 >/proc/sys/user/max_user_namespaces && exec setpriv --no-new-privs \
	--securebits +noroot,+noroot_locked --bounding-set=-all --inh-caps=-all "$@"'
within() {
	unshare -Ur sh -c "$forbid" sh "$@"
}

within true || fail "the test's own namespace"
within unshare -U true 2>/dev/null && fail "namespaces are still allowed"
equal "status" 7 "$(within "$softhca" run sh -c 'exit 7' 2>"$tmp/err" || echo $?)"
equal "stderr" "" "$(cat "$tmp/err")"
equal "what it reads" "mlx5_0" "$(within "$softhca" run ls /sys/class/infiniband 2>&1)"
look='test -e "$LD_LIBRARY_PATH/libibverbs.so.1" && echo found'
equal "output" "found" "$(within "$softhca" run sh -c "$look" 2>/dev/null)"
equal "user" "0 0" "$(within "$softhca" run sh -c 'echo $(id -u) $(id -g)' 2>/dev/null)"

# Nor may anything be written: a read-only container without /dev/shm.
unwritable='mount -t tmpfs -o ro none /dev/shm && mount --bind /tmp /tmp &&
	mount -o remount,bind,ro /tmp && exec "$@"'
sealed() {
	unshare -Urm sh -c "$unwritable" sh unshare -Ur sh -c "$forbid" sh "$@"
}
sealed test -e "$softhca" || fail "the test's own mounts"
unset XDG_RUNTIME_DIR TMPDIR
equal "output" "ran" "$(sealed "$softhca" run echo ran 2>"$tmp/err")"
equal "lines on stderr" 1 "$(wc -l <"$tmp/err")"
grep -q 'user namespace.*library path is set.*a writable /tmp' "$tmp/err" ||
	fail "it says: $(cat "$tmp/err")"
equal "SOFTHCA_VIEW=0" "ran" "$(SOFTHCA_VIEW=0 sealed "$softhca" run echo ran 2>&1)"
export XDG_RUNTIME_DIR="$tmp"

# Namespaces may be made, but nothing may be mounted in them.
nomount() {
	"$(dirname "$0")/container/refuse.py" mount=EPERM -- "$@"
}
nomount unshare -Urm true 2>/dev/null && fail "mounting is still allowed"
equal "status without mounts" 7 "$(nomount "$softhca" run sh -c 'exit 7' 2>"$tmp/err" || echo $?)"
equal "stderr" "" "$(cat "$tmp/err")"
equal "what it reads" "mlx5_0" "$(nomount "$softhca" run ls /sys/class/infiniband 2>&1)"
equal "user namespace" "$(readlink /proc/self/ns/user)" \
	"$(nomount "$softhca" run readlink /proc/self/ns/user 2>/dev/null)"

# No device either: the reason is said, the program runs.
export SOFTHCA_DEVICES=mlx5_0=nosuch
equal "no such interface" "ran" "$("$softhca" run echo ran 2>"$tmp/err")"
grep -q 'nosuch' "$tmp/err" || fail "it says: $(cat "$tmp/err")"
