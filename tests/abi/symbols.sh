#!/bin/sh
# SPDX-License-Identifier: MIT
# The drop-ins export what the system's libraries export: same names at the same versions, same
# SONAME. Of libibverbs' private node they have what libefa and pyverbs bind, and nothing that the
# system's does not have. Each is -z nodelete and runs nothing when it is loaded.
set -eu
ours=$SOFTHCA_LIB
system=$(dirname "$(ldconfig -p | awk '$1 == "libibverbs.so.1" { print $NF; exit }')")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
failed=0

fail() {
	echo "FAIL: $*"
	failed=1
}

exports() { # NAME@VERSION of defined functions; @@ marks the default version
	readelf -W --dyn-syms "$1" |
		awk '$7 != "UND" && $4 == "FUNC" && $5 != "LOCAL" { print $8 }' | LC_ALL=C sort
}

compilers_own() { # how many constructors the compiler's runtime puts into a library
	nm "$1" | grep -c -e ' frame_dummy$' -e ' __cpu_indicator_init$' || true
}

same() { # what expected-file actual-file
	diff "$2" "$3" >"$tmp/diff" && return
	cat "$tmp/diff"
	fail "$1: < only in the system's, > only in ours"
}

for name in libibverbs libmlx5 librdmacm; do
	lib=$ours/$name.so.1
	exports "$system/$name.so.1" | grep -v @IBVERBS_PRIVATE >"$tmp/system"
	test -s "$tmp/system" || fail "$system/$name.so.1: no symbols read"
	exports "$lib" | grep -v -e @IBVERBS_PRIVATE -e @SOFTHCA_PRIVATE >"$tmp/ours"
	same "$name.so.1" "$tmp/system" "$tmp/ours"
	readelf -Wd "$lib" | grep -q "SONAME.*\[$name.so.1\]" || fail "$lib: SONAME"
	readelf -Wd "$lib" | grep -q NODELETE || fail "$lib: not linked with -z nodelete"
	test "$(readlink -f "$ours/$name.so")" = "$(readlink -f "$lib")" ||
		fail "$ours/$name.so is not the dev name of $lib"
	constructors=$(readelf -WS "$lib" |
		sed -n 's/.* \.init_array *INIT_ARRAY *[0-9a-f]* [0-9a-f]* \([0-9a-f]*\).*/\1/p')
	test "${SOFTHCA_SANITIZER:-none}" != none ||
		test $((0x$constructors / 8)) = "$(compilers_own "$lib")" ||
		fail "$lib: .init_array of 0x$constructors bytes: a constructor"
done

exports "$system/libibverbs.so.1" | grep @IBVERBS_PRIVATE >"$tmp/system"
exports "$ours/libibverbs.so.1" | grep @IBVERBS_PRIVATE >"$tmp/ours"
LC_ALL=C comm -13 "$tmp/system" "$tmp/ours" >"$tmp/extra"
test ! -s "$tmp/extra" || fail "private names that the system's does not have: $(cat "$tmp/extra")"
for user in "$system"/libefa.so.1 /usr/lib/python3/dist-packages/pyverbs/*.so; do
	test -e "$user" || continue
	readelf -W --dyn-syms "$user" | awk '$7 == "UND" && $8 ~ /@IBVERBS_PRIVATE/ { print $8 }' |
		sed 's/@/@@/' | LC_ALL=C sort >"$tmp/needs"
	LC_ALL=C comm -23 "$tmp/needs" "$tmp/ours" >"$tmp/missing"
	test ! -s "$tmp/missing" || fail "$user binds $(cat "$tmp/missing")"
done
exit $failed
