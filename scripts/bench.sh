# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Speed, with the options of a plain user's build. The figures are the cases of one test.

bench_command()
{
	compile build-bench -Dtests=true
	[ $# -gt 0 ] || set -- '*'
	tests_run build-bench "${@/#/bench/speed:}"
}
