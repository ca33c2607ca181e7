# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # $top is build.sh's
# Known bugs, planted one at a time in a copy of the tree: a test suite that stays green with one of
# them is the finding. tests/mutants/README.md tells the form of a patch.

mutants_command() # [NAME...]
{
	local patch missed=0 count=0
	local -a patches=()

	mutants_find "$@"
	mutants_dir=$(mktemp -d)
	chmod 755 -- "$mutants_dir"
	trap 'rm -rf -- "$mutants_dir"' EXIT
	mutants_copy
	mutants_sound "${patches[@]}"
	for patch in "${patches[@]}"; do
		count=$((count + 1))
		mutants_one "$patch" || missed=$((missed + 1))
	done
	printf '%d passed, %d failed, %d skipped\n' "$((count - missed))" "$missed" 0
	[ "$missed" -eq 0 ]
}

# Fills the caller's `patches`: those named, or all.
mutants_find()
{
	local name

	shopt -s nullglob
	[ $# -gt 0 ] || set -- tests/mutants/*.patch
	[ $# -gt 0 ] || die 2 "tests/mutants/ has no patch"
	for name in "$@"; do
		name=tests/mutants/$(basename -- "$name" .patch).patch
		[ -f "$name" ] || die 2 "no such patch: $name"
		patches+=("$top/$name")
	done
}

# The copy is built once without a bug, so that each patch rebuilds only what it touches.
mutants_copy()
{
	say "copying and building the tree"
	tar -C "$top" --exclude='./build' --exclude='./build-*' --exclude='./.git' -cf - . |
		tar -C "$mutants_dir" -xf -
	(cd -- "$mutants_dir" && compile build-test -Dtests=true -Dlto=false)
}

mutants_kinds() # PATCH
{
	sed -n 's/^# test: *//p;T;q' -- "$1"
}

# A test that fails without a bug proves nothing with one.
mutants_sound() # PATCH...
{
	local patch log=$mutants_dir/output.log
	local -a kinds

	mapfile -t kinds < <(for patch; do mutants_kinds "$patch"; done | tr ' ' '\n' | sort -u)
	say "running the tests that the patches name, without a bug"
	if ! (cd -- "$mutants_dir" && tests_run build-test "${kinds[@]}") >"$log" 2>&1; then
		tail -n 20 -- "$log" >&2
		die 1 "these fail without a bug"
	fi
}

# Prints one row of the table; true when a test noticed.
mutants_one()
{
	local patch=$1 name kinds verdict log=$mutants_dir/output.log
	local -a targets

	name=$(basename -- "$patch" .patch)
	kinds=$(mutants_kinds "$patch")
	mapfile -t targets < <(mutants_targets "$kinds")
	mutants_files "$patch" keep
	if [ -z "$kinds" ]; then
		verdict='no "# test:" line'
	elif ! patch -d "$mutants_dir" -p1 -s -f -F0 -i "$patch" >"$log" 2>&1; then
		verdict='does not apply'
	elif ! ninja -C "$mutants_dir/build-test" "${targets[@]}" >"$log" 2>&1; then
		verdict='does not compile'
	else
		verdict=$(mutants_noticed "$log" "$kinds")
	fi
	mutants_files "$patch" restore
	printf '%-28s %s\n' "$name" "$verdict"
	[[ $verdict == noticed* ]]
}

# What ninja builds for some kinds: a unit test's program stands for itself; for others all of it.
mutants_targets() # KINDS
{
	local kind

	for kind in $1; do
		kind=unit_${kind#unit/}
		kind=$(cd -- "$mutants_dir/build-test" && find tests/unit -type f -name "$kind")
		[ -n "$kind" ] || return 0
		printf '%s\n' "$kind"
	done
}

# Runs the kinds until one test fails and says which.
mutants_noticed() # LOG KINDS
{
	local log=$1

	# shellcheck disable=SC2086 # a list of kinds
	if (cd -- "$mutants_dir" && tests_run build-test --fail-fast $2) >"$log" 2>&1; then
		printf 'NOT NOTICED by %s\n' "$2"
	elif grep -q '^FAIL ' -- "$log"; then
		printf 'noticed by %s\n' \
			"$(sed -n 's/^  \([^ ]*\) as .*, first: /\1: /p;T;q' -- "$log")"
	else
		printf 'the run broke: %s\n' "$(tail -n 1 -- "$log")"
	fi
}

# Keeps the files that a patch names, or puts them back, whatever became of them.
mutants_files() # PATCH keep|restore
{
	local file

	sed -n 's,^+++ b/\([^[:space:]]*\).*,\1,p' -- "$1" | while IFS= read -r file; do
		file=$mutants_dir/$file
		if [ "$2" = keep ]; then
			cp -- "$file" "$file.kept"
		else
			mv -f -- "$file.kept" "$file"
			touch -- "$file"
			rm -f -- "$file.rej" "$file.orig"
		fi
	done
}
