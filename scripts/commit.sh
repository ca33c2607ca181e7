#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the commit that a clone stands at, for `softhca --version`: "commit 0123456789ab of DAY",
# and whether files differ from it. Fails where FOLDER is no clone itself: an unpacked tree.
# usage: scripts/commit.sh FOLDER
set -eu
cd -- "$1"
export LC_ALL=C
[ "$(git rev-parse --show-toplevel 2>/dev/null)" = "$(pwd -P)" ]
changed=
git diff --quiet HEAD -- || changed=', changed'
# a fixed length: git's own grows with the number of objects
printf 'commit %s of %s%s\n' "$(git rev-parse HEAD | cut -c 1-12)" \
	"$(git log -1 --format=%cd --date=format:%Y-%m-%d)" "$changed"
