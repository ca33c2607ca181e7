# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# One build folder for each purpose, so that none undoes another's options:
# build (people), build-test (tests, warnings are errors), build-asan, build-tsan,
# build-coverage.

# configure FOLDER MESON-OPTION...: unless it is
configure()
{
	local dir=$1
	shift
	mkdir -p -- "$dir"
	[ ! -f "$dir/build.ninja" ] || return 0
	say "configuring $dir"
	quietly "$dir" meson setup "$dir" "$@"
}

# compile FOLDER MESON-OPTION...
compile()
{
	local dir=$1
	shift
	configure "$dir" "$@"
	say "compiling $dir"
	quietly "$dir" ninja -C "$dir"
}

# quietly FOLDER COMMAND...: its output goes to a file in FOLDER and is shown when it fails
quietly()
{
	local log=$1/output.log
	shift
	if ! "$@" >"$log" 2>&1; then
		grep -v '^\[[0-9]*/[0-9]*\] ' -- "$log" | tail -n 60 >&2 || true
		die 1 "failed: $* (all of it: $log)"
	fi
	grep -A 3 ' warning: ' -- "$log" >&2 || true
	rm -f -- "$log"
}

build_command()
{
	[ $# -eq 0 ] || die 2 "build takes no arguments"
	compile build
	say "done; try: ./build/softhca run -- ibv_devinfo"
}
