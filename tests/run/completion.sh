#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# traits: both
# What bash offers behind `softhca`: subcommands, their options, and names of files as they are.
# shellcheck source=tests/run/prelude.sh
. "$(dirname "$0")/prelude.sh"
. "$(dirname "$0")/../../docs/completion/softhca.bash"
softhca() {
	command "$softhca" "$@"
}

offers() { # EXPECTED WORD...: for the last word
	want=$1
	shift
	COMP_WORDS=(softhca "$@")
	COMP_CWORD=$#
	COMPREPLY=()
	_softhca
	equal "behind softhca $*" "$want" \
		"$(printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd '|')"
}

offers_process() { # PID: it and, maybe, others whose numbers begin alike
	COMP_WORDS=(softhca counters "$1")
	COMP_CWORD=2
	_softhca
	[[ " ${COMPREPLY[*]} " = *" $1 "* ]] || fail "no $1 among: ${COMPREPLY[*]}"
	for word in "${COMPREPLY[@]}"; do
		[[ $word = "$1"* ]] || fail "$word behind $1"
	done
}

cd "$tmp"
: >"my trace.pcapng"
: >"my*"
offers "list" li
offers "--help|--version" --
offers "my trace.pcapng" report "my t"
offers "my trace.pcapng|my*" report my
offers "my trace.pcapng" run "my t"
offers "my trace.pcapng" trace -o "my t"
offers "-m|-o" trace -
offers "--explain" run --
offers "" run cat --
offers "-b|-d|-n" top -
offers "-o" report -
offers_process "$$"
offers "" ps my
for command in $(softhca --help | sed -n 's/^  \([a-z][a-z]*\).*/\1/p'); do
	usage=$(softhca "$command" --help | sed 1q)
	for option in $(grep -oE '[[ ]--?[a-z]+' <<<"$usage" | tr -d '[ '); do
		offers "$option" "$command" "$option"
	done
done
