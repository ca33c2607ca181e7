# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Builds for testing and hands over to tests/run.py, which runs the kinds.

test_command()
{
	suite_fetch
	guest_fetch "$@"
	compile build-test -Dtests=true -Dwerror=true
	tests_run build-test "$@"
}

# tests_run BUILD-FOLDER ARGUMENT...
tests_run()
{
	local dir=$1
	shift
	/usr/bin/python3 -B tests/run.py --build "$dir" "$@"
}

# An instrumented build; `check` reads source alone, so it is left out unless it is asked for.
sanitize_command()
{
	local which=$1 sanitizers=address,undefined
	shift
	[ "$which" = asan ] || sanitizers=thread
	suite_fetch
	guest_fetch "$@"
	# what gcc warns of in instrumented code is often wrong, so it is no error here
	compile "build-$which" -Dtests=true -Dwerror=false -Db_sanitize="$sanitizers" \
		-Db_lundef=false --optimization=1 --debug
	[ $# -gt 0 ] || set -- --without check
	tests_run "build-$which" --sanitizer "$which" "$@"
}

# Which part of its code each fuzz target reaches.
# shellcheck disable=SC2120 # build.sh passes the targets that a person names
coverage_command() # [TARGET...]
{
	local dir=build-coverage

	configure "$dir" -Dtests=true -Db_coverage=true -Db_lto=false --optimization=1
	/usr/bin/python3 -B tests/fuzz/coverage.py "$dir" "$@"
}

SOAK_PARTS=8

# Each round takes another part of what is too long for one (tests/README.md).
soak_command()
{
	local minutes=${1-0} asked=${SOFTHCA_PART-} deadline round=1
	local first=$((RANDOM % SOAK_PARTS))

	[[ $minutes =~ ^[0-9]+$ ]] || die 2 "usage: ./build.sh soak [MINUTES]"
	deadline=$((SECONDS + minutes * 60))
	suite_fetch
	guest_fetch
	compile build-test -Dtests=true -Dwerror=true
	while :; do
		export SOFTHCA_PART=${asked:-$(((first + round - 1) % SOAK_PARTS + 1))/$SOAK_PARTS}
		say "soak: round $round, SOFTHCA_PART=$SOFTHCA_PART"
		tests_run build-test --length full || return
		[ "$SECONDS" -lt "$deadline" ] || break
		round=$((round + 1))
	done
	unset SOFTHCA_PART # the whole of what follows
	say "soak: random programs under each sanitizer"
	sanitize_command asan --length full property
	sanitize_command tsan --length full property
	say "soak: what the fuzz targets reach"
	coverage_command
	say "soak: aarch64"
	(aarch64_command)
	if [ "$(id -u)" -eq 0 ]; then
		say "soak: what there is to install"
		tests/dist.sh
	fi
}

# rdma-core's own suite comes with python3-pyverbs, as documentation: slim images drop it at
# installation, and then it is taken from the .deb, once.
suite_fetch()
{
	local installed=/usr/share/doc/rdma-core/tests fetched

	if [ -d "$installed" ] || [ -d build-suite ] || ! command -v apt-get >/dev/null; then
		return 0
	fi
	say "fetching the suite of rdma-core, which this image has left out"
	fetched=$(mktemp -d)
	if (cd -- "$fetched" && apt-get -q download python3-pyverbs) >"$fetched/log" 2>&1 &&
		dpkg -x "$fetched"/python3-pyverbs_*.deb "$fetched/root"; then
		rm -rf -- build-suite.new
		cp -R -- "$fetched/root$installed" build-suite.new
		mv -- build-suite.new build-suite
	else
		warn "apt-get download python3-pyverbs failed; conformance will be skipped"
		tail -n 5 -- "$fetched/log" >&2
	fi
	rm -rf -- "$fetched"
}

# guest_fetch [KIND...]: what the machine of the kind interop boots, made once, when all kinds are
# asked for or that one.
guest_fetch()
{
	local image=tests/interop/image.sh

	if cmp -s -- "$image" build-interop/made-by || [[ $# -gt 0 && " $* " != *" interop"* ]] ||
		! command -v apt-get >/dev/null; then
		return 0
	fi
	say "fetching Debian's kernel for the kind interop, which it boots in qemu"
	mkdir -p build-interop
	rm -f build-interop/*
	if bash "$image" build-interop >build-interop/log 2>&1; then
		cp -- "$image" build-interop/made-by
	else
		warn "$image failed; interop will be skipped"
		tail -n 5 -- build-interop/log >&2
	fi
}
