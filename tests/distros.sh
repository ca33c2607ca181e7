#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The tree on other releases of Debian: for each a minimal root, in which `./build.sh demo` is run
# and the kinds of `./build.sh test` that depend on the release: compiler, headers, programs, its
# own suite of rdma-core; and the tarball and the package that are built here. Needs root and apt's
# mirror.
# usage: tests/distros.sh [RELEASE...]   (default: bookworm trixie sid)
set -euo pipefail
top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source-path=SCRIPTDIR/..
{
	. "$top/scripts/say.sh"
	. "$top/scripts/packages.sh"
	. "$top/tests/minimal.sh"
}
kinds=(abi unit links verbs conformance clients)

# Used by a user in between; what was there before is there behind it, and nothing else.
# PREFIX HOW-IT-COMES HOW-IT-GOES
# shellcheck disable=SC2016 # for the shell within
comes_and_goes='
	files() { find "$1" -name __pycache__ -prune -o -print | sort; }
	before=$(files "$1")
	eval "$2"
	setpriv --reuid person --regid person --init-groups env -i PATH="$1/bin:$PATH" \
		softhca run -- ibv_devinfo | grep PORT_ACTIVE
	eval "$3"
	diff <(printf "%s\n" "$before") <(files "$1")'

# One row of the table for the root that stands: what it has, and how its steps ended.
describe() # RELEASE
{
	local -a names=(rdma-core gcc perftest ucx-utils openmpi-bin)

	printf '\n%s: ' "$1"
	for name in "${names[@]}"; do
		# shellcheck disable=SC2016 # dpkg-query fills it in
		printf '%s %s; ' "$name" "$(chroot "$root" dpkg-query -W -f '${Version}' \
			"${name/#rdma-core/libibverbs1}" 2>/dev/null || echo none)"
	done
	printf '\n'
	printf '  %s\n' "${rows[@]}"
}

release_run() # RELEASE ARCHIVE
{
	local -a demo tests

	rows=()
	minimal_make "$1" "$2"
	mapfile -d '' demo < <(as_root demo)
	mapfile -d '' tests < <(as_root test "${kinds[@]}")
	step "$1: demo" 0 "${demo[@]}"
	cp -- "$top"/build-dist/softhca-*.tar.gz "$top"/build-dist/softhca_*.deb "$root/opt/"
	step "$1: this machine's tarball" 0 sh -euc 'cd /opt && tar xzf softhca-*.tar.gz &&
		softhca-*/bin/softhca run -- ibv_devinfo | grep PORT_ACTIVE'
	step "$1: this machine's package, installed and removed" 0 bash -euc "$comes_and_goes" \
		bash /usr 'apt-get -q -y install /opt/softhca_*.deb' 'dpkg --purge softhca'
	step "$1: install, uninstall" 0 bash -euc "$comes_and_goes" bash /usr/local \
		'/root/softhca/build.sh install' '/root/softhca/build.sh uninstall'
	step "$1: test ${kinds[*]}" 0 "${tests[@]}"
	table+=("$(describe "$1")")
	clean
}

main()
{
	local own archive release

	[ "$(id -u)" -eq 0 ] || die 2 "tests/distros.sh needs root"
	packages_need fresh
	read -r own archive < <(mirror) || die 2 "apt names no Debian archive for this release"
	say "this machine has $own; packages come from $archive"
	[ $# -gt 0 ] || set -- bookworm trixie sid
	"$top/build.sh" dist
	table=() failed=0 network=host root=/nonexistent
	trap clean EXIT
	for release in "$@"; do
		release_run "$release" "$archive"
	done
	printf '%s\n' "${table[@]}"
	return "$failed"
}

main "$@"
