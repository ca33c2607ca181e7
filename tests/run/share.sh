#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# All runs of one user share one user namespace, also when the first ones start at the same time,
# and after the first one has ended; they reach each other's memory.
# shellcheck source=tests/run/prelude.sh disable=SC2016 # scripts for a shell within the run
. "$(dirname "$0")/prelude.sh"
need_view
"$softhca" run true || fail "run"

# A run that prints its user namespace and stays until its input ends.
member='readlink /proc/self/ns/user; exec cat'

mkfifo "$tmp/stay" "$tmp/names"
exec 7<>"$tmp/names"
for i in 1 2 3 4 5 6 7 8; do
	"$softhca" run sh -c "$member" <"$tmp/stay" >&7 &
done
exec 9<>"$tmp/stay"
read -r first <&7
for i in 2 3 4 5 6 7 8; do
	read -r other <&7
	equal "user namespace of run $i" "$first" "$other"
done

# One member is enough for the next to find it, be it a child that outlived its run.
mkfifo "$tmp/child"
"$softhca" run sh -c 'cat "$0" >/dev/null & true' "$tmp/child" 9>&-
exec 8>"$tmp/child"
exec 9>&-
wait
equal "after the others have ended" "$first" "$("$softhca" run readlink /proc/self/ns/user)"
exec 8>&-

cat >"$tmp/peek.py" <<'END'
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
class iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
pid, address = map(int, sys.stdin.readline().split())
buf = ctypes.create_string_buffer(6)
local, remote = iovec(ctypes.addressof(buf), 6), iovec(address, 6)
n = libc.process_vm_readv(pid, ctypes.byref(local), 1, ctypes.byref(remote), 1, 0)
print(buf.raw.decode() if n == 6 else os.strerror(ctypes.get_errno()))
END
cat >"$tmp/show.py" <<'END'
import ctypes, os, sys
buf = ctypes.create_string_buffer(b"secret")
print(os.getpid(), ctypes.addressof(buf), flush=True)
sys.stdin.read()
END
mkfifo "$tmp/hold" "$tmp/where"
"$softhca" run python3 "$tmp/show.py" <"$tmp/hold" >"$tmp/where" &
exec 9>"$tmp/hold"
equal "the other's memory" secret "$("$softhca" run python3 "$tmp/peek.py" <"$tmp/where")"
exec 9>&-
wait
