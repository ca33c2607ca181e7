#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# What softhca doctor finds of a machine and of programs, and its exit status.
# shellcheck source=tests/run/prelude.sh
. "$(dirname "$0")/prelude.sh"
export SOFTHCA_DEVICES=mlx5_0=lo

doctor() { # STATUS [PROGRAM]: into $tmp/out
	want=$1
	shift
	got=0
	"$softhca" doctor "$@" >"$tmp/out" 2>&1 || got=$?
	[ "$want" = "$got" ] || fail "doctor $*: status $got: $(cat "$tmp/out")"
}

has() { # PATTERN
	grep -q -- "$1" "$tmp/out" || fail "no '$1' in: $(cat "$tmp/out")"
}

hasnt() {
	if grep -- "$1" "$tmp/out"; then
		fail "'$1' in: $(cat "$tmp/out")"
	fi
}

build() { # NAME FLAGS: a program
	name=$1
	shift
	echo 'int main(void) { return 0; }' | gcc -x c -o "$tmp/$name" - "$@" || skip "no compiler"
}

doctor 0
has '^ok     libraries: /'
has ' namespaces: '
has '^ok     shared memory: '
has '^ok     meeting point: '
has ' Yama: '
has ' memlock: '
has '^ok     mlx5_0: on lo, active'
has '^note   mlx5_0: lo reaches this host only'
has '^ok     MTU: .* path MTU 4096 B'
has '^ok     UDP 4791: free'
has ' firewall: '
hasnt '^wrong'

# Another user has the port: on an address that is not the device's, on one of several, on all.
held() { # STATUS ADDRESS...
	want=$1 got=0
	shift
	/usr/bin/python3 - "$softhca" "$@" >"$tmp/out" 2>&1 <<'END' || got=$?
import os, socket, subprocess, sys
try:
    os.seteuid(1)
except OSError:
    sys.exit(77)
held = [socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET, socket.SOCK_DGRAM)
        for at in sys.argv[2:]]
for s, at in zip(held, sys.argv[2:]):
    s.bind((at, 4791))
os.seteuid(0)
sys.exit(subprocess.run([sys.argv[1], "doctor"], check=False).returncode)
END
	[ "$got" = 77 ] && return 1
	[ "$want" = "$got" ] || fail "held on $*: status $got: $(cat "$tmp/out")"
}
if held 0 127.0.0.9; then
	has '^ok     UDP 4791: free'
	if ip addr show lo | grep -q 'inet6 ::1/'; then
		held 0 127.0.0.1
		has '^note   UDP 4791: uid 1 has it on 127.0.0.1, '
		has '^ok     UDP 4791: free'
		held 1 127.0.0.1 ::1
	else
		held 1 127.0.0.1
	fi
	has '^wrong  UDP 4791: mlx5_0 has no address where it is free, '
fi

SOFTHCA_DEVICES=mlx5_0=nosuch0 doctor 1
has '^wrong  device: '

# Where interfaces cannot be listed the other findings are said all the same.
got=0
"$(dirname "$0")/container/refuse.py" socket=EPERM -- "$softhca" doctor >"$tmp/out" 2>&1 || got=$?
[ "$got" = 1 ] || fail "without sockets: status $got: $(cat "$tmp/out")"
has '^wrong  device: none (Operation not permitted); '
has ' firewall: '

# Namespaces may be made, but nothing may be mounted in them.
"$(dirname "$0")/container/refuse.py" mount=EPERM -- "$softhca" doctor >"$tmp/out" 2>&1 ||
	fail "without mounts: $(cat "$tmp/out")"
has '^note   namespaces: not allowed (Operation not permitted)'

# Started by a program that ignores SIGCHLD.
"$softhca" doctor >"$tmp/usual"
env --ignore-signal=CHLD "$softhca" doctor >"$tmp/out"
equal "where SIGCHLD is ignored" "$(cat "$tmp/usual")" "$(cat "$tmp/out")"

doctor 0 ibv_devinfo
has '^ok     program: /.*/ibv_devinfo is linked dynamically'
has '^ok     libibverbs.so.1: has each of the '
hasnt '^wrong'

build static -static
doctor 1 "$tmp/static"
has '^wrong  program: .*static'
build static-pie -static-pie
doctor 1 "$tmp/static-pie"
has '^wrong  program: .*static'

mkdir "$tmp/other"
: >"$tmp/other/libibverbs.so.1"
build rpath "-Wl,--disable-new-dtags,-rpath,/nowhere:\$ORIGIN/other"
doctor 1 "$tmp/rpath"
# shellcheck disable=SC2016 # as it stands in the program
has '^wrong  library path: .* leads to $ORIGIN/other'
build runpath "-Wl,--enable-new-dtags,-rpath,$tmp/other"
doctor 0 "$tmp/runpath"
has '^ok     library path: '
has '^note   RDMA: it links none'
build elsewhere "-Wl,--disable-new-dtags,-rpath,$tmp"
doctor 0 "$tmp/elsewhere"
has '^ok     library path: '

# As execvp() looks for it.
mkdir "$tmp/folders" "$tmp/folders/rpath" "$tmp/folders/ibv_devinfo"
cd "$tmp"
PATH="$tmp/folders::$PATH" doctor 1 rpath
has '^ok     program: ./rpath is linked dynamically'
PATH="$tmp/folders:$PATH" doctor 0 ibv_devinfo
has '^ok     program: /.*/ibv_devinfo is linked dynamically'
(
	unset PATH
	doctor 0 ibv_devinfo
)
cd /
has '^ok     program: /.*/ibv_devinfo is linked dynamically'

# A library of that name with a version that ours has not.
echo 'IBVERBS_9.9 { global: novel; };' >"$tmp/map"
echo 'int novel(void) { return 0; }' |
	gcc -x c -shared -fPIC -Wl,-soname,libibverbs.so.1 "-Wl,--version-script,$tmp/map" \
		-o "$tmp/libnovel.so" -
echo 'int novel(void); int main(void) { return novel(); }' |
	gcc -o "$tmp/newer" -x c - -x none "$tmp/libnovel.so"
doctor 1 "$tmp/newer"
has '^wrong  libibverbs.so.1: version IBVERBS_9.9 is missing'

# More of them than anybody reads.
for i in 1 2 3 4 5 6 7 8 9 10 11; do
	echo "IBVERBS_9.$i { global: novel$i; };" >&3
	echo "int novel$i(void) { return 0; }" >&4
	echo "int novel$i(void);" >&5
	sum="${sum:-0} + novel$i()"
done 3>"$tmp/map" 4>"$tmp/many.c" 5>"$tmp/needs.c"
echo "int main(void) { return $sum; }" >>"$tmp/needs.c"
gcc -shared -fPIC -Wl,-soname,libibverbs.so.1 "-Wl,--version-script,$tmp/map" \
	-o "$tmp/libmany.so" "$tmp/many.c"
gcc -o "$tmp/needs" "$tmp/needs.c" "$tmp/libmany.so"
doctor 1 "$tmp/needs"
equal "lines of missing versions" 8 "$(grep -c 'IBVERBS_9.* is missing' "$tmp/out")"
has '^wrong  libibverbs.so.1: 3 more versions are missing'

# Nothing that a file says, or is called, reaches the terminal as a command to it.
escape=$(printf '\033')
LC_ALL=C sed "s/IBVERBS_9\.9/IBV${escape}[2J_9.9/g" "$tmp/newer" >"$tmp/written"
doctor 1 "$tmp/written"
has '^wrong  libibverbs.so.1: version IBV?.2J_9.9 is missing'
mkdir "$tmp/x${escape}[2J"
: >"$tmp/x${escape}[2J/libibverbs.so.1"
build led "-Wl,--disable-new-dtags,-rpath,$tmp/x${escape}[2J"
doctor 1 "$tmp/led"
has '^wrong  library path: .* leads to .*/x?.2J; patchelf'
"$softhca" run "$tmp/led" 2>"$tmp/out"
has 'leads to .*/x?.2J; patchelf'
name=$(printf 'h\303\251 \302\233 \233 \340\202\233 \177 \nx')
cp "$tmp/led" "$tmp/$name"
doctor 1 "$tmp/$name"
has "/$(printf 'h\303\251') ?? ? ??? ? ?x is linked dynamically"

cp "$tmp/runpath" "$tmp/raised"
chmod u+s "$tmp/raised"
doctor 0 "$tmp/raised"
has '^ok     rights: none'
if chown 1 "$tmp/raised" 2>/dev/null; then
	chmod u+s "$tmp/raised"
	doctor 1 "$tmp/raised"
	has '^wrong  rights: set-user-ID'
fi

doctor 1 "$tmp/nosuch"
has '^wrong  program: '
echo '#!/bin/sh' >"$tmp/script"
chmod +x "$tmp/script"
doctor 0 "$tmp/script"
has '^note   program: .* is no ELF file'

# Nothing that a file says keeps the tool at work: here a million libraries that are needed.
/usr/bin/python3 - "$tmp/long" <<'END'
import platform, struct, sys
machine = {"x86_64": 62, "aarch64": 183}[platform.machine()]
needed = struct.pack("<QQ", 1, 0) * 1000000
segment = [struct.pack("<IIQQQQQQ", kind, 4, 176, 0, 0, size, size, 8)
           for kind, size in ((3, 1), (2, len(needed)))]
header = struct.pack("<16sHHIQQQIHHHHHH", b"\x7fELF\x02\x01\x01", 3, machine, 1, 0, 64, 0, 0, 64,
                     56, 2, 0, 0, 0)
open(sys.argv[1], "wb").write(header + b"".join(segment) + needed)
END
timeout 60 "$softhca" doctor "$tmp/long" >"$tmp/out" 2>&1 || fail "long: status $?"
has '^note   RDMA: it links none'

# Nothing that a file says makes the tool read outside it.
size=$(stat -c %s "$tmp/newer")
for at in 0 16 32 40 54 64 600 800 1000 1200; do
	cp "$tmp/newer" "$tmp/broken"
	head -c 8 /dev/zero | tr '\0' '\377' |
		dd of="$tmp/broken" bs=1 seek="$at" conv=notrunc status=none
	"$softhca" doctor "$tmp/broken" >"$tmp/out" 2>&1 || [ $? = 1 ] ||
		fail "bytes at $at: $(cat "$tmp/out")"
	head -c $((size * at / 1300)) "$tmp/newer" >"$tmp/broken"
	"$softhca" doctor "$tmp/broken" >"$tmp/out" 2>&1 || [ $? = 1 ] ||
		fail "cut at $((size * at / 1300)): $(cat "$tmp/out")"
done

doctor 125 a b
doctor 125 --x
