# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Completion of the softhca command: its subcommands and their options, then programs, files, or
# processes that run here.

_softhca_options() # COMMAND: those in its line of usage
{
	softhca "$1" --help 2>/dev/null | sed -n 1p | grep -oE -- '--?[a-z]+' | sort -u
}

# Whether the word that is completed is before the program of `run` and `trace`.
_softhca_leads()
{
	[ "$COMP_CWORD" -eq 2 ] || [[ ${COMP_WORDS[COMP_CWORD - 1]} = -* ]]
}

_softhca_words()
{
	local word=${COMP_WORDS[COMP_CWORD]} command=${COMP_WORDS[1]-}

	case $command:$word in
	run:-* | trace:-*)
		if _softhca_leads; then
			compgen -W "$(_softhca_options "$command")" -- "$word"
		else
			compgen -f -- "$word"
		fi ;;
	*:-*)
		compgen -W "$(_softhca_options "$command")" -- "$word" ;;
	ps:* | list:* | env:* | explain:*)
		;;
	fault:* | counters:* | top:*)
		compgen -W "$(pgrep -u "$(id -u)" -d ' ' '')" -- "$word" ;;
	run:* | trace:* | doctor:*)
		compgen -c -f -- "$word" ;;
	*)
		compgen -f -- "$word" ;;
	esac
}

_softhca()
{
	if [ "$COMP_CWORD" -eq 1 ]; then
		mapfile -t COMPREPLY < <(compgen -W "--help --version $(softhca --help 2>/dev/null |
			sed -n 's/^  \([a-z][a-z]*\).*/\1/p')" -- "${COMP_WORDS[1]}")
	else
		mapfile -t COMPREPLY < <(_softhca_words)
	fi
}
complete -o filenames -F _softhca softhca
