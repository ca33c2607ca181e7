#!/bin/sh
# SPDX-License-Identifier: MIT
# What scripts/commit.sh says of a clone, of one with changes, and of what is none.
# shellcheck source=tests/run/prelude.sh
. "$(dirname "$0")/prelude.sh"
command -v git >/dev/null || skip "no git"
commit=$(cd "$(dirname "$0")/../.." && pwd -P)/scripts/commit.sh
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a \
	GIT_COMMITTER_DATE=2026-01-02T03:04:05Z GIT_CONFIG_GLOBAL=/dev/null

mkdir -p "$tmp/clone/inside"
"$commit" "$tmp/clone" 2>"$tmp/err" && fail "a folder without a repository has a commit"
git -C "$tmp/clone" init -q
: >"$tmp/clone/file"
git -C "$tmp/clone" add file
git -C "$tmp/clone" commit -qm one
wanted="commit $(git -C "$tmp/clone" rev-parse HEAD | cut -c 1-12) of 2026-01-02"
equal "a clone" "$wanted" "$("$commit" "$tmp/clone")"
: >"$tmp/clone/other"
equal "a file that git does not know" "$wanted" "$("$commit" "$tmp/clone")"
echo more >"$tmp/clone/file"
equal "a change" "$wanted, changed" "$("$commit" "$tmp/clone")"
"$commit" "$tmp/clone/inside" && fail "a folder within a clone has its commit"
exit 0
