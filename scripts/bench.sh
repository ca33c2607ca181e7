# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Speed, with the options of a plain user's build. The figures are the cases of two tests: those
# that begin with net/ are measured between hosts, those with cm/ on one host and between two.
# `instructions` is counted, not timed; `growth` prints curves, `crowd` what many pairs carry, `top`
# what `softhca top` costs.

bench_command()
{
	local name tests=()

	compile build-bench -Dtests=true
	[ $# -gt 0 ] || tests=('bench/speed:*' 'bench/network:*')
	for name; do
		case $name in
		instructions | growth | crowd | top) tests+=("bench/$name") ;;
		cm*) tests+=("bench/speed:$name" "bench/network:$name") ;;
		net*) tests+=("bench/network:$name") ;;
		*) tests+=("bench/speed:$name") ;;
		esac
	done
	tests_run build-bench "${tests[@]}"
}
