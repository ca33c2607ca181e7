#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Shows what the programs of a job have written to the file SOFTHCA_EXPLAIN, each sentence once,
# with how often it came: as annotations and a summary on GitHub, as an annotation on Buildkite, as
# lines elsewhere. Without SOFTHCA_EXPLAIN (in a shell of its own) it takes the file that setup.sh
# names. Never fails: what has failed has said so.
set -uo pipefail
shown=10 # GitHub takes so many annotations of a step
rows=500 # GitHub drops a summary of more than 1 MiB
job=${CI_JOB_ID:-${BUILDKITE_JOB_ID-}}
place=${RUNNER_TEMP:-${TMPDIR:-/tmp}}/softhca-$(id -u)${job:+-$job} # as in setup.sh
said=${SOFTHCA_EXPLAIN-$place/explained}

sentences() # as "COUNT SENTENCE", in the order of their first, without process numbers
{
	awk '{ sub(/\[[0-9]+\]: /, ": ") }
		{ if (!count[$0]++) order[++n] = $0 }
		END { for (i = 1; i <= n; i++) print count[order[i]], order[i] }' "$said"
}

as_table()
{
	printf '### What softhca says\n\n| times | |\n|---|---|\n'
	sentences |
		sed 's/|/\\|/g; s/</\&lt;/g; s/^\([0-9]*\) \(softhca: \)\{0,1\}/| \1 | /; s/$/ |/' |
		awk -v rows="$rows" 'NR <= rows
			END { if (NR > rows) printf "\nand %d more\n", NR - rows }'
}

as_annotations()
{
	sentences | sed -n "1,${shown}s/^[0-9]* \(softhca: \)\{0,1\}//p" |
		sed 's/%/%25/g; s/\r/%0D/g; s/^/::warning title=softhca::/'
}

case $said in
*/*) [ -s "$said" ] || exit 0 ;;
*) exit 0 ;; # it was said on standard error, or not asked for
esac
if [ -n "${GITHUB_STEP_SUMMARY-}" ]; then
	as_annotations
	as_table >>"$GITHUB_STEP_SUMMARY"
elif [ -n "${BUILDKITE-}" ]; then
	as_table | buildkite-agent annotate --style warning --context softhca
else
	sentences
fi
exit 0
