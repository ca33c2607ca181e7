#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# traits: both
# ./build.sh install and uninstall: what is below the prefix comes and goes, and nothing else,
# whatever the list of files says and however far an installation came; and what dist does where no
# package can be made.
# shellcheck source=tests/run/prelude.sh
. "$(dirname "$0")/prelude.sh"
top=$(cd "$(dirname "$0")/../.." && pwd -P)
there=$tmp/there

plant() { # LINE...: an installation whose list has these lines too
	rm -rf "$there"
	mkdir -p "$there/bin" "$there/lib/softhca"
	: >"$there/bin/softhca"
	: >"$there/bin/another"
	printf '%s\n' bin/softhca lib/ lib/softhca/ lib/softhca/gone/file "$@" \
		>"$there/lib/softhca/installed"
}

uninstall() { # STATUS [PREFIX]
	status=0
	"$top/build.sh" uninstall --prefix "${2-$there}" >"$tmp/out" 2>&1 || status=$?
	equal "status, and says: $(cat "$tmp/out")" "$1" "$status"
}

left() { # FILE...: all that is below the prefix
	equal "what is left" "$*" "$(cd "$there" && find . ! -type d -printf '%P\n' |
		sort | paste -sd ' ')"
}

says() { # PATTERN
	grep -q -- "$1" "$tmp/out" || fail "no '$1' in: $(cat "$tmp/out")"
}

plant
uninstall 0
left bin/another
[ ! -e "$there/lib" ] || fail "an empty lib/ is left"
uninstall 1
says 'nothing of softhca is installed'
uninstall 1 "$tmp/nowhere"
says "no folder $tmp/nowhere"

mkdir "$tmp/scratch"
: >"$tmp/scratch/file"
mkdir "$tmp/scratch/folder"
plant "../scratch/file" "bin/../../scratch/file" "$tmp/scratch/file" "link/file" "" "bin/" "/" \
	"../scratch/folder/" "link/folder/"
ln -s ../scratch "$there/link"
uninstall 1
[ -e "$tmp/scratch/file" ] || fail "a file outside is gone: $(cat "$tmp/out")"
[ -e "$tmp/scratch/folder" ] || fail "a folder outside is gone: $(cat "$tmp/out")"
says 'not removed, .*: bin/\.\./\.\./scratch/file$'
says 'not removed, .*: link/file$'
left bin/another link

ln -s "$there" "$tmp/led"
plant
uninstall 0 "$tmp/led"
left bin/another

plant
if [ "$(id -u)" = 0 ] && chown -h 1 "$there/lib/softhca/installed" 2>/dev/null; then
	uninstall 1
	says 'belongs to uid 1'
	left bin/another bin/softhca lib/softhca/installed
fi

# The folder of another installation, which has a list that root may believe.
plant
mv "$there/lib" "$tmp/scratch/lib"
ln -s "$tmp/scratch/lib" "$there/lib"
uninstall 1
says 'nothing of softhca is installed'
[ -e "$tmp/scratch/lib/softhca/installed" ] || fail "the other's list is gone"

# By a name that `cd` looks up in CDPATH, and prints.
(cd "$top/.." && CDPATH=. "$(basename "$top")/build.sh" --help >"$tmp/out" 2>&1) ||
	fail "with CDPATH: $(cat "$tmp/out")"

# Over an installation whose programs run: they have mapped its files.
owner_run() { :; }
. "$top/scripts/say.sh"
. "$top/scripts/install.sh"
install_stage() { echo "$tmp/stage"; }
mkdir -p "$tmp/stage/bin" "$tmp/stage/lib/softhca"
echo new >"$tmp/stage/bin/softhca"
caller=$tmp
plant lib/softhca/of-old/ lib/softhca/of-old/file ../scratch/file
mkdir "$there/lib/softhca/of-old"
: >"$there/lib/softhca/of-old/file"
exec 3<"$there/bin/softhca"
install_command --prefix there >"$tmp/out"
equal "what programs have mapped" "" "$(cat <&3)"
[ -e "$tmp/scratch/file" ] || fail "a file outside is gone: $(cat "$tmp/out")"
equal "what is installed" new "$(cat "$there/bin/softhca")"
left bin/another bin/softhca lib/softhca/installed
[ ! -e "$there/lib/softhca/of-old" ] || fail "an empty folder of the older version is left"
equal "the list" "bin/softhca lib/ lib/softhca/" "$(paste -sd ' ' "$there/lib/softhca/installed")"

# Empty folders that were there before stay; those that it made go, also after a second time.
rm -rf "$there"
mkdir -p "$there/bin" "$there/share/man"
mkdir -p "$tmp/stage/share/man/man1"
echo page >"$tmp/stage/share/man/man1/softhca.1"
install_command --prefix there >"$tmp/out"
install_command --prefix there >"$tmp/out"
uninstall 0
equal "folders that are left" "bin share share/man" \
	"$(cd "$there" && find . -mindepth 1 -printf '%P\n' | sort | paste -sd ' ')"

# A disk that is full in the middle.
plant
rm "$there/lib/softhca/installed"
cp() {
	command cp "$@"
	return 1
}
set +e
(
	set -e
	install_command --prefix there
) >"$tmp/out" 2>&1
status=$?
set -e
equal "status on a full disk" 1 "$status"
uninstall 0
left bin/another

# dist makes a tarball alone where there is no dpkg-deb.
mkdir -p "$tmp/few" "$tmp/tree/build-dist"
for name in cat git rm sed sha256sum stat uname; do
	ln -s "$(command -v $name)" "$tmp/few/"
done
echo "  version: '1'," >"$tmp/tree/meson.build"
cd "$tmp/tree"
status=0
top=$top PATH=$tmp/few "$BASH" -euo pipefail >"$tmp/out" 2>&1 <<'END' || status=$?
. "$top/scripts/say.sh"
. "$top/scripts/dist.sh"
dist_compile() { :; }
dist_tarball() { echo all >"build-dist/$1.tar.gz"; }
dist_command
END
equal "status without dpkg-deb, and says: $(cat "$tmp/out")" 0 "$status"
says '^    [0-9a-f]\{64\}  softhca-.*\.tar\.gz$'
says '^==> done: build-dist/softhca-.*\.tar\.gz'
