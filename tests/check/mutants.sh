#!/bin/bash
# SPDX-License-Identifier: MIT
# Every planted bug still has its place: a patch that does not apply any more tests nothing.
# traits: source
set -u
cd "$(dirname "$0")/../.." || exit 1
stale=0 count=0

for patch in tests/mutants/*.patch; do
	count=$((count + 1))
	if ! patch -p1 -s -f -F0 --dry-run -i "$patch" >/dev/null 2>&1; then
		printf '%s does not apply\n' "$patch"
		stale=1
	fi
done
printf '%d patches\n' "$count"
[ "$count" -gt 0 ] && [ "$stale" -eq 0 ]
