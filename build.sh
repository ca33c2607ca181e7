#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The one entry for people: sets the machine up, builds softhca, shows it, tests it.
# `./build.sh --help` lists the commands; each lives in a file of scripts/.
set -euo pipefail
unset CDPATH # by which cd prints where it went
top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd -P)
readonly top
caller=$PWD # what a relative --prefix is relative to
readonly caller
cd -- "$top"
umask 022

# shellcheck source-path=SCRIPTDIR
{
	. scripts/say.sh
	. scripts/packages.sh
	. scripts/owner.sh
	. scripts/compile.sh
	. scripts/install.sh
	. scripts/dist.sh
	. scripts/demo.sh
	. scripts/test.sh
	. scripts/bench.sh
	. scripts/mutants.sh
	. scripts/aarch64.sh
}

usage()
{
	cat <<-'EOF'
	usage: ./build.sh [COMMAND]

	  (no command)           build into ./build; then ./build/softhca run -- PROGRAM works
	  demo                   build, then run unmodified RDMA programs over the emulated HCA
	  test [KIND[/NAME]...]  build, then run every test, or some kinds; last line: the counts
	  install [--prefix DIR] install into DIR (/usr/local): bin/softhca, lib/softhca/, man page
	  uninstall [--prefix DIR]
	                         remove what install has put there
	  dist                   into build-dist/: a tarball that runs on any glibc system as new as
	                         this one, and a Debian package; the same bytes each time

	for developers:
	  bench [NAME...]        speed, side by side with what the machine itself can do
	  check                  style gates, clang-format, clang-tidy, cppcheck, shellcheck
	  asan [KIND[/NAME]...]  the tests under AddressSanitizer and UBSan
	  tsan [KIND[/NAME]...]  the tests under ThreadSanitizer
	  aarch64 [KIND[/NAME]...]
	                         cross build for aarch64; unit and sim run there by qemu-user
	  coverage [TARGET...]   which part of its code each fuzz target reaches
	  mutants [NAME...]      plant known bugs one by one: some test must notice each;
	                         SOFTHCA_JOBS of them at a time (default: one a processor)
	  soak [MINUTES]         every test at full length, round after round (default: one round,
	                         with an eighth of what takes hours; SOFTHCA_PART=1/1: all of it);
	                         then random programs under sanitizers, then aarch64

	Missing Debian packages are installed by apt (as root, or through sudo).
	EOF
}

# setup COMMAND SET...: packages first (root may be needed), then never again as anybody but the
# clone's owner. `install` returns: only its copying needs the caller's rights.
setup()
{
	local command=$1
	shift
	packages_need "$@"
	if [ "$command" != install ] && owner_differs; then
		say "the tree belongs to uid $owner_uid: going on as that user"
		owner_exec "$top/build.sh" "${arguments[@]}"
	fi
}

main()
{
	local command=${1-build}

	[ $# -eq 0 ] || shift
	case $command in
	-h | --help | help) usage ;;
	build) setup build build; build_command "$@" ;;
	install) setup install build; install_command "$@" ;;
	uninstall) uninstall_command "$@" ;;
	dist) setup dist build; dist_command "$@" ;;
	demo) setup demo build demo; demo_command "$@" ;;
	test) setup test build demo test; test_command "$@" ;;
	check) setup check build test; test_command check ;;
	asan | tsan) setup "$command" build demo test; sanitize_command "$command" "$@" ;;
	soak) setup soak build demo test aarch64 dist soak; soak_command "$@" ;;
	aarch64) setup aarch64 build test aarch64; aarch64_command "$@" ;;
	coverage) setup coverage build test; coverage_command "$@" ;;
	mutants) setup mutants build demo test; mutants_command "$@" ;;
	bench) setup bench build demo bench; bench_command "$@" ;;
	*)
		usage >&2
		die 2 "unknown command '$command'"
		;;
	esac
}

arguments=("$@")
main "$@"
