#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# traits: both
# What bash offers behind `softhca`: subcommands, their options, and names of files as they are; and
# zsh, where it is there: with words in place of its own functions.
# shellcheck source=tests/run/prelude.sh
. "$(dirname "$0")/prelude.sh"
tests=$(cd -- "$(dirname "$0")/.." && pwd -P)
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
command -v zsh >/dev/null || exit 0

cat >zsh-offers <<'END'
softhca() { command $SOFTHCA "$@" }
compadd() { shift; print -l -- ${(M)@:#$words[CURRENT]*} }
_describe() { print -l -- ${(M)${(P)2}:#$words[CURRENT]*} }
_files() { print FILES }
_pids() { print PROCESSES }
_command_names() { print COMMANDS }
_normal() { print -r -- PROGRAM $words[1,CURRENT] }
words=(softhca "$@")
CURRENT=$#words
. $COMPLETION
END

zsh_offers() { # EXPECTED WORD...: for the last word
	want=$1
	shift
	equal "zsh: behind softhca $*" "$want" "$(SOFTHCA=$softhca \
		COMPLETION=$(dirname "$tests")/docs/completion/_softhca zsh -f zsh-offers "$@" |
		sort | paste -sd '|')"
}

zsh_offers "list" li
zsh_offers "--help|--version" --
zsh_offers FILES report my
zsh_offers FILES trace -o my
zsh_offers FILES trace -m my
zsh_offers "-m|-o" trace -
zsh_offers "--explain" run --
zsh_offers "PROGRAM ca" run ca
zsh_offers "PROGRAM cat --" run --explain cat --
zsh_offers "PROGRAM cat my" trace -o my.pcapng cat my
zsh_offers "-b|-d|-n" top -
zsh_offers "-o" report -
zsh_offers PROCESSES counters 1
zsh_offers COMMANDS doctor ib
zsh_offers "" ps my
for command in $(softhca --help | sed -n 's/^  \([a-z][a-z]*\).*/\1/p'); do
	zsh_offers "$command" "$command"
	usage=$(softhca "$command" --help | sed 1q)
	for option in $(grep -oE '[[ ]--?[a-z]+' <<<"$usage" | tr -d '[ '); do
		zsh_offers "$option" "$command" "$option"
	done
done
