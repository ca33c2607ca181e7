#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# The HCA in /sys and /dev where no namespace can be made: as programs of the C library read it.
# shellcheck source=tests/run/prelude.sh disable=SC2016 # scripts for a shell within the run
. "$(dirname "$0")/prelude.sh"
ip addr show lo | grep -q 127.0.0.1 || skip "lo is down"
export SOFTHCA_DEVICES=mlx5_0=lo SOFTHCA_VIEW=files
export XDG_RUNTIME_DIR="$tmp"

read_sys() {
	"$softhca" run cat "/sys/class/infiniband/mlx5_0/$1"
}

equal "GID type" "RoCE v2" "$(read_sys ports/1/gid_attrs/types/3)"
equal "GID" "0000:0000:0000:0000:0000:ffff:7f00:0001" "$(read_sys ports/1/gids/3)"
equal "PCI device" 0x1021 "$(read_sys device/device)"
equal "slashes" "1: CA" "$("$softhca" run cat /sys//class/infiniband///mlx5_0//node_type)"
equal "netdev" lo "$("$softhca" run ls /sys/class/infiniband/mlx5_0/device/net/)"
equal "its folder" "00:00:00:00:00:00" "$("$softhca" run cat \
	/sys/class/infiniband/mlx5_0/device/net/lo/address)"
equal "verbs device" "mlx5_0 1:3" \
	"$("$softhca" run sh -c 'cd /sys/class/infiniband_verbs/uverbs0; echo $(cat ibdev dev)')"
"$softhca" run sh -c 'test -c /dev/infiniband/uverbs0 -a -w /dev/infiniband/uverbs0 &&
	: <>/dev/infiniband/uverbs0' || fail "uverbs0 is no writable character device"
equal "other folders" "$(ls /sys/class/net)" "$("$softhca" run ls /sys/class/net)"
"$softhca" run test -e /dev/infinibands && fail "a name that begins alike is taken for ours"
"$softhca" run ls -l /sys/class/infiniband >"$tmp/ls" 2>&1 || fail "ls -l: $(cat "$tmp/ls")"
grep -q 'mlx5_0 -> ' "$tmp/ls" || fail "ls -l shows: $(cat "$tmp/ls")"

# LD_PRELOAD ends at a blank: one line says so, and the program runs.
mkdir -p "$tmp/a b/bin" "$tmp/a b/lib"
cp "$softhca" "$tmp/a b/bin"
cp -R "$(dirname "$softhca")/../lib/softhca" "$tmp/a b/lib/"
equal "run in a path with a blank" ran "$("$tmp/a b/bin/softhca" run echo ran 2>"$tmp/err")"
equal "lines on standard error" 1 "$(wc -l <"$tmp/err")"
grep -q 'LD_PRELOAD ends at a blank, .*; install' "$tmp/err" ||
	fail "it says: $(cat "$tmp/err")"

equal "python" "['mlx5_0'] True True" "$("$softhca" run /usr/bin/python3 -c '
import glob, os
print(os.listdir("/sys/class/infiniband"),
      glob.glob("/sys/class/infiniband/*/ports/*")[0] == "/sys/class/infiniband/mlx5_0/ports/1",
      os.path.realpath("/sys/class/infiniband/mlx5_0").endswith("c1:00.0/infiniband/mlx5_0"))')"
equal "a program that has cleared its environment" "['mlx5_0']" \
	"$("$softhca" run /usr/bin/python3 -c '
import os
os.environ.clear()
print(os.listdir("/sys/class/infiniband"))')"
equal "a program that has written its title over its environment" "['mlx5_0']" \
	"$("$softhca" run /usr/bin/python3 -c '
import ctypes, os
libc = ctypes.CDLL(None)
libc.strdup.restype = ctypes.c_void_p
places = ctypes.POINTER(ctypes.c_void_p).in_dll(libc, "environ")
n = 0
while place := places[n]:
    places[n] = libc.strdup(ctypes.c_void_p(place))
    ctypes.memset(place, ord("x"), len(ctypes.string_at(place)))
    n += 1
print(os.listdir("/sys/class/infiniband"))')"
if command -v ibstat >/dev/null; then
	"$softhca" run ibstat >"$tmp/ibstat" || fail "ibstat"
	for line in "CA 'mlx5_0'" "State: Active" "Link layer: Ethernet"; do
		grep -q "$line" "$tmp/ibstat" || fail "ibstat lists no '$line'"
	done
fi
if command -v lstopo-no-graphics >/dev/null; then # hwloc
	"$softhca" run lstopo-no-graphics >"$tmp/lstopo" || fail "lstopo"
	grep -q 'OpenFabrics "mlx5_0"' "$tmp/lstopo" || fail "lstopo shows no mlx5_0"
fi

# Equal devices share a folder, others have their own; nobody else may write there.
equal "folders after equal runs" 1 "$(ls "$tmp"/softhca-view-*/ | wc -l)"
rm -r "$tmp"/softhca-view-*/*/class/infiniband # as a cleaner of old files may
equal "after a cleaner" mlx5_0 "$("$softhca" run ls /sys/class/infiniband 2>&1)"
equal "folders after a cleaner" 1 "$(ls "$tmp"/softhca-view-*/ | wc -l)"
equal "devices" "mlx5_0 mlx5_1" "$(SOFTHCA_DEVICES=mlx5_0=lo,mlx5_1=lo "$softhca" run sh -c '
	test -c /dev/infiniband/uverbs1 && echo $(ls /sys/class/infiniband)')"
equal "folders after another" 2 "$(ls "$tmp"/softhca-view-*/ | wc -l)"
equal "rights" "drwx--x--x" "$(stat -c %A "$tmp"/softhca-view-*)"
chmod 777 "$tmp"/softhca-view-*
mkdir "$tmp/other"
equal "output" fine "$(TMPDIR="$tmp/other" "$softhca" run echo fine)"
equal "folders elsewhere" 1 "$(ls "$tmp"/other/softhca-view-*/ | wc -l)"
equal "a folder that others may write" 2 "$(ls "$tmp"/softhca-view-*/ | wc -l)"

# A place that gets full is passed over, too.
mkdir "$tmp/small"
if unshare -Urm true 2>/dev/null; then
	full='mount -t tmpfs -o size=8k none "$0" && exec "$@"'
	equal "with a full disk" mlx5_0 "$(XDG_RUNTIME_DIR="$tmp/small" TMPDIR="$tmp/other" \
		unshare -Urm sh -c "$full" "$tmp/small" "$softhca" run \
		ls /sys/class/infiniband 2>&1)"
fi

# A program that changes its user, as those of containers' entry points do.
if setpriv --reuid 1 --clear-groups true 2>/dev/null; then
	chmod 711 "$tmp"
	mkdir -m 1777 "$tmp/public"
	equal "another user, umask 077" "uverbs0 mlx5_0 RoCE v2" "$(unset XDG_RUNTIME_DIR
		umask 077
		TMPDIR="$tmp/public" "$softhca" run setpriv --reuid 1 --clear-groups sh -c '
			cd /sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types
			echo $(ls /dev/infiniband/ /sys/class/infiniband/ | grep "[0-9]$") \
				"$(cat 3)"' 2>&1)"
fi
# A sanitizer's runtime comes second in the inner one, behind what the outer one has it load.
equal "a run inside a run" "mlx5_7 uverbs0" "$("$softhca" run env SOFTHCA_DEVICES=mlx5_7=lo \
	ASAN_OPTIONS="${ASAN_OPTIONS-}:verify_asan_link_order=0" "$softhca" run sh -c '
	echo $(ls /sys/class/infiniband) $(ls /dev/infiniband)' 2>&1)"
equal "umask" 0077 "$(umask 077 && "$softhca" run sh -c umask)"

equal "SOFTHCA_VIEW=0" "fine" "$(SOFTHCA_VIEW=0 "$softhca" run sh -c '
	test -e /sys/class/.softhca || echo fine' 2>&1)"
