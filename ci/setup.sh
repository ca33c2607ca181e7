#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes softhca ready for the later steps of a CI job: unpacks a tarball, or builds the tree that
# this file is in, and hands the environment on: to GitHub by its files, else as lines for `eval`.
# usage: ci/setup.sh [TARBALL [DEVICES]]   TARBALL: a path or a URL; empty: build
set -euo pipefail
unset CDPATH # by which cd prints where it went
top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
job=${CI_JOB_ID:-${BUILDKITE_JOB_ID-}} # other jobs of this user may run at the same time
place=${RUNNER_TEMP:-${TMPDIR:-/tmp}}/softhca-$(id -u)${job:+-$job} # as in annotate.sh
tarball=${1-} devices=${2-}

# A failure must not be lost in eval "$(ci/setup.sh ...)", whose status is that of the text.
report()
{
	local status=$?
	[ "$status" -eq 0 ] || [ -n "${GITHUB_ENV-}" ] || echo false
}

# Where each job has a folder nobody else removes them.
remove_old()
{
	[ -z "$job" ] || find "${place%/*}/" -maxdepth 1 -type d -user "$(id -u)" -mtime +1 \
		-name "softhca-$(id -u)-*" -exec rm -rf -- {} + 2>/dev/null || true
}

# The folder, which nobody else may have put there: what is in it will run. On GitHub each job has
# an empty one, which several steps fill; elsewhere an earlier job has left its sentences.
make_place()
{
	mkdir -m 755 -- "$place" 2>/dev/null || true
	if [ -z "$(find "$place" -maxdepth 0 -type d -user "$(id -u)" ! -perm /022)" ]; then
		echo "$place is no folder of yours that only you may write; remove it, or set" \
			"TMPDIR" >&2
		exit 1
	fi
	[ -n "${GITHUB_ENV-}" ] || rm -f -- "$place/explained"
}

unpack() # TARBALL
{
	local file=$1

	case $1 in
	http://* | https://*)
		file=$place/softhca.tar.gz
		curl -fsSL --retry 3 -o "$file" -- "$1"
		;;
	*) ;;
	esac
	tar -xzf "$file" -C "$place" --strip-components=1
}

hand_on() # NAME VALUE
{
	if [ -n "${GITHUB_ENV-}" ]; then
		printf '%s=%s\n' "$1" "$2" >>"$GITHUB_ENV"
	else
		printf 'export %s=%q\n' "$1" "$2"
	fi
}

trap report EXIT
remove_old
make_place
if [ -n "$tarball" ]; then
	unpack "$tarball" >&2
else
	"$top/build.sh" install --prefix "$place" >&2
fi
"$place/bin/softhca" --version >&2
if [ -n "${GITHUB_PATH-}" ]; then
	printf '%s\n' "$place/bin" >>"$GITHUB_PATH"
else
	hand_on PATH "$place/bin:$PATH"
fi
hand_on LD_LIBRARY_PATH "$place/lib/softhca${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
hand_on SOFTHCA_EXPLAIN "$place/explained"
[ -z "$devices" ] || hand_on SOFTHCA_DEVICES "$devices"
