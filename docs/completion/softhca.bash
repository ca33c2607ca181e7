# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2207 # words without blanks
# Completion of the softhca command: its subcommands, then programs, or processes that run here.

_softhca()
{
	local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-}

	if [ "$COMP_CWORD" -eq 1 ]; then
		COMPREPLY=($(compgen -W "$(softhca --help 2>/dev/null |
			sed -n 's/^  \([a-z][a-z]*\).*/\1/p')" -- "$word"))
		return
	fi
	case $command in
	ps | list | env)
		COMPREPLY=() ;;
	fault | counters | top)
		COMPREPLY=($(compgen -W "$(pgrep -u "$(id -u)" -d ' ' '')" -- "$word")) ;;
	run | trace | doctor)
		COMPREPLY=($(compgen -c -- "$word") $(compgen -f -- "$word")) ;;
	*)
		COMPREPLY=($(compgen -f -- "$word")) ;;
	esac
}
complete -o filenames -F _softhca softhca
