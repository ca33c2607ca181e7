#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# What the tool says of devices, numbers, names and mistyped variables.
# shellcheck source=tests/run/prelude.sh
. "$(dirname "$0")/prelude.sh"
export SOFTHCA_VIEW=0

has() { # WHAT PATTERN, in $tmp/out
	grep -q -- "$2" "$tmp/out" || fail "$1: no '$2' in: $(cat "$tmp/out")"
}

refused() { # WORDS of a call that must not succeed
	if "$softhca" "$@" >"$tmp/out" 2>&1; then
		fail "softhca $* succeeds: $(cat "$tmp/out")"
	fi
}

SOFTHCA_DEVICES=mlx5_0=lo,mlx5_7=lo "$softhca" list >"$tmp/out"
has list '^mlx5_0 on lo: port 1 active, path MTU'
has list '^mlx5_7 on lo: '
has list '^  gid 0   RoCE v1  fe80::'
has list '^  gid 1   RoCE v2  fe80::'
SOFTHCA_DEVICES=mlx5_0=nosuch0 refused list
has "list without a device" 'no device'
refused list extra

for words in --help --version list env "explain 12"; do
	# shellcheck disable=SC2086 # words of a call
	SOFTHCA_DEVICES=mlx5_0=lo "$softhca" $words 2>"$tmp/out" >/dev/full &&
		fail "$words: succeeds on a full disk"
	has "$words" 'not all could be written to standard output: No space left'
done

# A path that LD_LIBRARY_PATH cannot name: the program would get the system's libraries.
for name in a:b 'a;b' "a\$LIB" "a\${ORIGIN}"; do
	mkdir -p "$tmp/$name/bin" "$tmp/$name/lib/softhca"
	cp "$softhca" "$tmp/$name/bin"
	: >"$tmp/$name/lib/softhca/libibverbs.so.1"
	for words in "run true" env doctor; do
		# shellcheck disable=SC2086 # words of a call
		if "$tmp/$name/bin/softhca" $words >"$tmp/out" 2>&1; then
			fail "$words in $name: $(cat "$tmp/out")"
		fi
		has "$words in $name" 'LD_LIBRARY_PATH cannot name it; install'
	done
done

for word in RETRY_EXC retry_exc_err IBV_WC_RETRY_EXC_ERR 0x81; do
	"$softhca" explain "$word" >"$tmp/out"
	has "explain $word" '^completion status 12, IBV_WC_RETRY_EXC_ERR, vendor_err 0x81: '
	equal "lines of $word" 1 "$(wc -l <"$tmp/out")"
done
"$softhca" explain 0x88 >"$tmp/out"
has "explain 0x88" IBV_WC_REM_ACCESS_ERR
"$softhca" explain 12 >"$tmp/out" # a status and an errno
has "explain 12" '^completion status 12, '
has "explain 12" '^errno 12, ENOMEM'
"$softhca" explain einval >"$tmp/out"
has "explain einval" '^errno 22, EINVAL (.*): '
for word in REJECTED RDMA_CM_EVENT_REJECTED 8; do
	"$softhca" explain "$word" >"$tmp/out"
	has "explain $word" '^event 8, RDMA_CM_EVENT_REJECTED: '
done
has "explain 8" '^status 8 of RDMA_CM_EVENT_REJECTED: nobody listens'
"$softhca" explain -110 >"$tmp/out" # as events have it
has "explain -110" '^errno 110, ETIMEDOUT '
"$softhca" explain addr >"$tmp/out"
equal "explain addr" 1 "$(grep -c '^event 1, RDMA_CM_EVENT_ADDR_ERROR' "$tmp/out")"
"$softhca" explain ENOTSUP >"$tmp/out"
has "explain ENOTSUP" '^errno 95, EOPNOTSUPP '
for word in 0x88x RETRY '' IBV_WC_ 99999999999999999999 -x -99999; do
	refused explain "$word"
	has "explain '$word'" 'is no completion status'
done
refused explain
refused explain 1 2

equal "--explain" 1 "$("$softhca" run --explain printenv SOFTHCA_EXPLAIN)"
equal "--explain --" 1 "$("$softhca" run --explain -- printenv SOFTHCA_EXPLAIN)"
equal "--explain leaves a file" /x/y \
	"$(SOFTHCA_EXPLAIN=/x/y "$softhca" run --explain printenv SOFTHCA_EXPLAIN)"
for none in "" 0; do
	equal "--explain instead of '$none'" 1 \
		"$(SOFTHCA_EXPLAIN=$none "$softhca" run --explain printenv SOFTHCA_EXPLAIN)"
done
refused run --explain

mistyped() { # SETTING PATTERN
	env "$1" "$softhca" list >"$tmp/listed" 2>"$tmp/out"
	has "$1" "$2"
}
mistyped SOFTHCA_EXPLIAN=1 'is it SOFTHCA_EXPLAIN?'
mistyped SOFTHCA_DEVICE=mlx5_0=lo 'is it SOFTHCA_DEVICES?'
mistyped SOFTHCA_LGO=debug 'is it SOFTHCA_LOG?'
mistyped SOFTHCA_LOG=verbose 'error, warn, info, debug'
mistyped SOFTHCA_DIRECT=yes 'one of: 0, 1'
mistyped SOFTHCA_MLX5DV=on 'one of: 0, 1'
mistyped SOFTHCA_DOORBELL=trp 'one of: trap, nap, spin'
for value in explain.txt leak Leaks true; do
	mistyped SOFTHCA_EXPLAIN=$value 'one of: 0, 1, leaks, the name of a file with a slash'
done
SOFTHCA_VIEW=no refused run /no/such/program # so that nothing is preloaded into a program
has "SOFTHCA_VIEW=no" 'one of: 0, files'
for setting in SOFTHCA_LIB=/x SOFTHCA_LOG=debug SOFTHCA_DIRECT=1 SOFTHCA_OTHER=1 SOFTHCA_=1 \
	SOFTHCA_EXPLAIN= SOFTHCA_EXPLAIN=0 SOFTHCA_EXPLAIN=1 SOFTHCA_EXPLAIN=leaks \
	SOFTHCA_EXPLAIN=./leak; do
	env "$setting" "$softhca" list >"$tmp/listed" 2>"$tmp/out"
	equal "$setting is left alone" "" "$(cat "$tmp/out")"
done
for command in "" run trace report fault counters ps top list explain doctor env; do
	# shellcheck disable=SC2086 # none at all
	"$softhca" $command --help >"$tmp/out"
	has "$command --help" "^usage: softhca $command"
	for name in DEVICES EXPLAIN FAULT TRACE LOG DIRECT VIEW MLX5DV DOORBELL; do
		has "$command --help" "^  SOFTHCA_$name "
	done
done
