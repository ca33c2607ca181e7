#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# A program that the loader gives other libraries than ours is named in one line, others in none.
# shellcheck source=tests/run/prelude.sh
. "$(dirname "$0")/prelude.sh"
need_view
export SOFTHCA_DEVICES=mlx5_0=lo XDG_RUNTIME_DIR="$tmp"

build() { # NAME FLAGS: a program that says whether the loader takes it for one with more rights
	name=$1
	shift
	cat <<-'END' | gcc -x c -o "$tmp/$name" - "$@" || skip "no compiler"
		#include <stdio.h>
		#include <sys/auxv.h>
		#ifdef RDMA
		const char *volatile where = "/sys/class/infiniband";
		#endif
		int main(void) { return printf("ran %lu\n", getauxval(AT_SECURE)) < 0; }
	END
}

says() { # PROGRAM SECURE PATTERN: that, and what it prints; '' stands for no line
	"$softhca" run "$tmp/$1" >"$tmp/out" 2>"$tmp/err" || fail "$1: status $?"
	equal "$1 prints" "ran $2" "$(cat "$tmp/out")"
	if [ -z "$3" ]; then
		equal "$1: standard error" "" "$(cat "$tmp/err")"
		return
	fi
	equal "$1: lines" 1 "$(wc -l <"$tmp/err")"
	grep -q -- "$1: .*$3.*SOFTHCA_VIEW=0" "$tmp/err" || fail "$1: $(cat "$tmp/err")"
	equal "$1, SOFTHCA_VIEW=0" "" "$(SOFTHCA_VIEW=0 "$softhca" run "$tmp/$1" 2>&1 >"$tmp/out")"
}

mkdir "$tmp/other"
: >"$tmp/other/libibverbs.so.1"
build plain
build static -static
build static-rdma -static -DRDMA
build static-pie-rdma -static-pie -DRDMA
build rpath "-Wl,--disable-new-dtags,-rpath,$tmp/other"
build runpath "-Wl,--enable-new-dtags,-rpath,$tmp/other"
says plain 0 ''
says static 0 ''
says static-rdma 0 'linked statically.*finds no device'
says static-pie-rdma 0 'linked statically.*finds no device'
says rpath 0 "DT_RPATH .* leads to $tmp/other"
says runpath 0 ''

# The kernel is asked who is right: a bit that raises nothing is no matter.
cp "$tmp/plain" "$tmp/own-bit"
chmod u+s "$tmp/own-bit"
says own-bit 0 ''
cp "$tmp/plain" "$tmp/raised"
if chown 1 "$tmp/raised" 2>/dev/null; then
	chmod u+s "$tmp/raised"
	says raised 1 'set-user-ID'
	softhca_plain=$softhca
	printf '#!/bin/sh\nexec setpriv --no-new-privs %s "$@"\n' "$softhca_plain" >"$tmp/kept"
	chmod +x "$tmp/kept"
	softhca=$tmp/kept
	says raised 0 ''
	softhca=$softhca_plain
fi

export SOFTHCA_VIEW=files
says plain 0 ''
"$softhca" run "$tmp/static" >"$tmp/out" 2>"$tmp/err"
grep -q 'linked statically.*preloaded library' "$tmp/err" || fail "files: $(cat "$tmp/err")"
