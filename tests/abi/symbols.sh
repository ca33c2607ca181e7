#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: source
# The drop-ins export what the system's libraries and those of newer releases (newer.txt) export:
# same names at the same versions, same SONAME. libibverbs has private nodes, each with all that
# providers and pyverbs bind: those that are installed here, and those of Debian 13 and sid
# (providers.txt). Each is -z nodelete and runs nothing when it is loaded. The release that the maps
# name beside a node is the one that Debian's lists have, of those packages that are installed.
set -eu
ours=$SOFTHCA_LIB
here=$(dirname "$0")
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
	exports "$system/$name.so.1" | grep -v @IBVERBS_PRIVATE >"$tmp/installed"
	test -s "$tmp/installed" || fail "$system/$name.so.1: no symbols read"
	case $name in
	libibverbs) node='@@IBVERBS_' ;;
	libmlx5) node='@@MLX5_' ;;
	*) node='@@RDMACM_' ;;
	esac
	grep -e "$node" "$here/newer.txt" | LC_ALL=C sort -u - "$tmp/installed" >"$tmp/system"
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

readelf -W --dyn-syms "$ours/libibverbs.so.1" |
	awk '$7 != "UND" && $8 ~ /@IBVERBS_PRIVATE_/ && $4 != "NOTYPE" { print $8 }' |
	sed 's/@@/@/' | grep -v '^IBVERBS_PRIVATE' | LC_ALL=C sort >"$tmp/ours"
binds() { # what a library or module binds of private nodes
	readelf -W --dyn-syms "$1" | awk '$7 == "UND" && $8 ~ /@IBVERBS_PRIVATE/ { print $8 }'
}
for user in "$system"/libibverbs/*.so /usr/lib/python3/dist-packages/pyverbs/*.so \
	"$here/providers.txt"; do
	test -e "$user" || continue
	case $user in
	*.txt) cat "$user" ;;
	*) binds "$user" ;;
	esac | LC_ALL=C sort -u >"$tmp/needs"
	LC_ALL=C comm -23 "$tmp/needs" "$tmp/ours" >"$tmp/missing"
	test ! -s "$tmp/missing" || fail "$user binds $(cat "$tmp/missing")"
done

# Every private node has the same names.
sed 's/.*@//' "$tmp/ours" | LC_ALL=C sort -u >"$tmp/nodes"
test "$(wc -l <"$tmp/nodes")" -ge 10 || fail "private nodes: $(cat "$tmp/nodes")"
while read -r node; do
	sed -n "s/@$node\$//p" "$tmp/ours" |
		sed 's/^verbs_register_driver_.*/register/' >"$tmp/names"
	test -e "$tmp/first" || cp "$tmp/names" "$tmp/first"
	same "names of $node" "$tmp/first" "$tmp/names"
done <"$tmp/nodes"

# NODE RELEASE: of Debian's lists, and of our maps, where each node has one.
cat /var/lib/dpkg/info/libibverbs1[:.]*symbols /var/lib/dpkg/info/ibverbs-providers[:.]*symbols \
	/var/lib/dpkg/info/librdmacm1*[:.]*symbols 2>/dev/null |
	sed -n 's/^ \(\(IBVERBS\|MLX5\|RDMACM\)_[0-9.]*\)@\1 /\1 /p' |
	sed 's/ [0-9]*\..*/ before rdma-core/' | LC_ALL=C sort >"$tmp/debian"
src=$here/../../src
cat "$src/verbs/libibverbs.map.in" "$src/mlx5/libmlx5.map" "$src/rdmacm/librdmacm.map" |
	grep '^[A-Z].*{' | grep -v SOFTHCA_PRIVATE >"$tmp/nodes"
sed -n 's,^\([A-Z0-9]*_[0-9.]*\) { /\* v*\(.*\) \*/$,\1 \2,p' "$tmp/nodes" |
	LC_ALL=C sort >"$tmp/releases"
grep -v ' { /\* .* \*/$' "$tmp/nodes" >"$tmp/missing" || test $? = 1
test ! -s "$tmp/missing" || fail "nodes without a release: $(cat "$tmp/missing")"
LC_ALL=C comm -23 "$tmp/debian" "$tmp/releases" >"$tmp/missing"
test ! -s "$tmp/missing" || fail "Debian's lists say: $(cat "$tmp/missing")"
exit $failed
