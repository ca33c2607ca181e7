#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# What softhca env prints sets up a shell, whatever is in the path of the installation.
# shellcheck source=tests/run/prelude.sh disable=SC2016 # scripts for a shell within the run
. "$(dirname "$0")/prelude.sh"

odd="$tmp/it's a \"\$HOME\" \\ folder"
mkdir -p "$odd/bin" "$odd/lib/softhca"
cp -L "$softhca" "$odd/bin/softhca"
: >"$odd/lib/softhca/libibverbs.so.1"
line=$("$odd/bin/softhca" env)
equal "alone" "$odd/lib/softhca" "$(eval "$line"; printf %s "$LD_LIBRARY_PATH")"
equal "before what is there" "$odd/lib/softhca:/x" \
	"$(LD_LIBRARY_PATH=/x; eval "$line"; printf %s "$LD_LIBRARY_PATH")"
option=ignore_noninstrumented_modules=1
unset TSAN_OPTIONS
equal "ThreadSanitizer's" "$option" "$(eval "$line"; printf %s "$TSAN_OPTIONS")"
equal "before the user's" "$option:x=1" \
	"$(TSAN_OPTIONS=x=1; eval "$line"; printf %s "$TSAN_OPTIONS")"
rm "$odd/lib/softhca/libibverbs.so.1"
if "$odd/bin/softhca" env >"$tmp/out" 2>&1; then
	fail "env succeeds without the libraries"
fi
grep -q libibverbs "$tmp/out" || fail "does not say what is missing: $(cat "$tmp/out")"
if "$softhca" env extra 2>/dev/null; then
	fail "env takes an argument"
fi
"$softhca" --help | grep -q 'softhca run' || fail "--help does not name run"
"$softhca" --version | grep -q '^softhca [0-9][0-9.]* (commit .*)$' || fail "--version"
