#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The proof that two commands are enough: makes a minimal Debian, puts a clean copy of the tree in
# and runs `./build.sh demo` and `./build.sh test` there, as root and as a user without sudo.
# Needs root and apt's mirror. usage: tests/fresh.sh [KIND...]   (kinds for `test`; default all)
set -euo pipefail
top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source-path=SCRIPTDIR/..
{
	. "$top/scripts/say.sh"
	. "$top/scripts/packages.sh"
	. "$top/tests/minimal.sh"
}

run_steps()
{
	local -a root_demo root_test person_demo person_test

	mapfile -d '' root_demo < <(as_root demo)
	mapfile -d '' root_test < <(as_root test "$@")
	mapfile -d '' person_demo < <(as_person demo)
	mapfile -d '' person_test < <(as_person test "$@")
	step 'user without sudo, packages missing: told what to install' 2 "${person_demo[@]}"
	step 'root: demo' 0 "${root_demo[@]}"
	network=none
	step 'user without sudo, without network: demo' 0 "${person_demo[@]}"
	network=host
	step 'root: test' 0 "${root_test[@]}"
	step 'user without sudo: test' 0 "${person_test[@]}"
}

main()
{
	local release archive

	[ "$(id -u)" -eq 0 ] || die 2 "tests/fresh.sh needs root"
	packages_need fresh
	read -r release archive < <(mirror) || die 2 "apt names no Debian archive for this release"
	trap clean EXIT
	minimal_make "$release" "$archive"
	rows=() failed=0 network=host
	run_steps "$@"
	printf '\n=== fresh %s\n' "$release"
	printf '%s\n' "${rows[@]}"
	return "$failed"
}

main "$@"
