#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What `./build.sh dist` and `install` make: the same bytes in two folders; a tarball that runs from
# anywhere, without the two libraries of the system; a package without an error of lintian's; an
# installation that goes away again. Changes nothing outside of a temporary folder.
# usage: tests/dist.sh
set -euo pipefail
top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
tmp=$(mktemp -d)
trap 'rm -rf -- "$tmp"' EXIT
chmod 755 -- "$tmp"

fail()
{
	printf 'FAIL: %s\n' "$*" >&2
	exit 1
}

# The committed tree, in FOLDER, where its files are made into what is to be installed.
make() # FOLDER
{
	git clone -q -- "$top" "$1"
	"$1/build.sh" dist >"$1.log" 2>&1 || fail "$(tail -n 5 -- "$1.log")"
}

same_bytes()
{
	local file

	make "$tmp/one"
	make "$tmp/another folder"
	for file in "$tmp"/one/build-dist/*.tar.gz "$tmp"/one/build-dist/*.deb; do
		cmp -- "$file" "$tmp/another folder/build-dist/${file##*/}" ||
			fail "${file##*/} differs between two folders"
	done
	printf 'the same bytes twice: ok\n'
}

# shows TEXT COMMAND...: not by a pipe, which grep -q would close before the command ends
shows()
{
	local text=$1 output
	shift
	output=$(runs "$@")
	[[ $output == *"$text"* ]]
}

# By a user, and with nothing of the system's in the environment.
runs() # COMMAND...
{
	setpriv --reuid 65534 --regid 65534 --clear-groups env -i PATH=/usr/bin:/bin "$@"
}

tarball_runs()
{
	local lib file place=$tmp/any/where

	mkdir -p -- "$place"
	tar -xzf "$tmp"/one/build-dist/*.tar.gz -C "$place"
	place=$(echo "$place"/softhca-*)
	shows PORT_ACTIVE "$place/bin/softhca" run -- ibv_devinfo ||
		fail "ibv_devinfo on the unpacked tarball"
	for lib in libisal libmnl; do
		# shellcheck disable=SC2016 # for the shell within the run
		shows "$place/lib/softhca/private/$lib" "$place/bin/softhca" run -- sh -c \
			'ldd "$LD_LIBRARY_PATH/libibverbs.so.1"' || fail "$lib is the system's"
	done
	shows "(commit $(git -C "$tmp/one" rev-parse HEAD | cut -c 1-12) of " \
		"$place/bin/softhca" --version || fail "--version does not name the commit"
	for file in LICENSE CHANGELOG.md copyright.libisal copyright.libmnl; do
		[ -s "$place/share/doc/softhca/$file" ] || fail "the tarball has no $file"
	done
	printf 'the tarball runs from anywhere: ok\n'
}

package_is_sound()
{
	local deb

	deb=$(echo "$tmp"/one/build-dist/*.deb)
	dpkg-deb -x "$deb" "$tmp/root"
	shows PORT_ACTIVE "$tmp/root/usr/bin/softhca" run -- ibv_devinfo ||
		fail "ibv_devinfo on the unpacked package"
	if command -v lintian >/dev/null; then
		lintian --fail-on error -- "$deb" || fail "lintian"
	else
		printf 'no lintian here\n'
	fi
	printf 'the package: ok\n'
}

installation_goes_away()
{
	(cd -- "$tmp" && one/build.sh install --prefix=there >/dev/null)
	shows PORT_ACTIVE "$tmp/there/bin/softhca" run -- ibv_devinfo ||
		fail "ibv_devinfo on the installation"
	: >"$tmp/there/bin/of-another"
	(cd -- "$tmp" && one/build.sh uninstall --prefix=there >/dev/null)
	[ "$(find "$tmp/there" ! -type d)" = "$tmp/there/bin/of-another" ] ||
		fail "left behind: $(find "$tmp/there" ! -type d)"
	[ ! -e "$tmp/there/lib" ] || fail "an empty lib/ is left"
	printf 'install and uninstall: ok\n'
}

[ "$(id -u)" -eq 0 ] || fail "needs root, to run as another user"
same_bytes
tarball_runs
package_is_sound
installation_goes_away
