# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # $top and $caller are build.sh's
# The owner of the clone builds and stages, whoever asked copies: so root may install from
# somebody else's clone and leaves no file there. Nothing in the tree depends on the prefix.
# What was installed is listed in PREFIX/lib/softhca/installed, which uninstall reads: files, and
# the folders that were not there before, with a slash at the end.

# Prints the folder that the arguments of VERB name.
install_prefix() # VERB [--prefix DIR]
{
	local verb=$1 prefix=/usr/local
	shift

	case ${1-} in
	'') ;;
	--prefix) prefix=${2:?$verb --prefix DIR} ;;
	--prefix=?*) prefix=${1#--prefix=} ;;
	*) die 2 "usage: ./build.sh $verb [--prefix DIR]" ;;
	esac
	[[ $prefix = /* ]] || prefix=$caller/$prefix
	printf '%s\n' "$prefix"
}

# install_stage BUILD-FOLDER STAGE [OPTION...]: prints the folder in STAGE that has bin/
install_stage()
{
	local build=$1 stage=$2 from
	shift 2

	owner_run rm -rf -- "$stage"
	owner_run meson install -C "$build" --no-rebuild --quiet --destdir "$stage" "$@" >/dev/null
	from=$(find "$stage" -type d -name bin -printf '%h\n' -quit)
	[ -n "$from" ] || die 1 "the build installs no bin/ folder"
	printf '%s\n' "$from"
}

# What the list is to name: the files of STAGE, and those of its folders that PREFIX lacks, or that
# the list of the older version, the caller's $old, has.
install_names() # STAGE PREFIX
{
	local name

	find "$1" -mindepth 1 \( -type d -printf '%P/\n' -o -printf '%P\n' \) |
		while IFS= read -r name; do
			if [[ $name != */ || ! -e $2/$name ||
				$'\n'$old$'\n' == *$'\n'"$name"$'\n'* ]]; then
				printf '%s\n' "$name"
			fi
		done | sort
}

# The list comes first, so that what a full disk has left can be uninstalled; until all is there it
# names the files of an older version, too. Files are replaced, not written to: programs that run
# have mapped them.
install_command()
{
	local prefix stage=$top/build/stage from list old='' new

	prefix=$(install_prefix install "$@") || exit
	list=$prefix/lib/softhca/installed
	owner_run "$top/build.sh" build
	from=$(install_stage "$top/build" "$stage") || exit
	if [ -f "$list" ] && install_is_believed "$list"; then
		old=$(sort -- "$list")
	fi
	new=$(install_names "$from" "$prefix")
	mkdir -p -- "$prefix/lib/softhca" || die 1 "cannot write to $prefix (root can)"
	prefix=$(cd -P -- "$prefix" && pwd -P)
	rm -f -- "$list"
	printf '%s\n' "$new" ${old:+"$old"} >"$list"
	cp -R --remove-destination -- "$from/." "$prefix/"
	old=$(comm -13 <(printf '%s\n' "$new") <(printf '%s\n' "$old"))
	install_remove "$prefix" <<<"$old" || true
	install_remove_folders "$prefix" <<<"$old"
	printf '%s\n' "$new" >"$list"
	owner_run rm -rf -- "$stage"
	say "installed below $prefix; try: $prefix/bin/softhca run -- ibv_devinfo"
}

# Whether FILE lies below PREFIX, whose path has no link: by its name, and by the links on the way.
install_has() # PREFIX FILE
{
	local folder

	case /$2/ in
	*//* | */../* | */./*) return 1 ;;
	esac
	folder=$(cd -P -- "$1/$(dirname -- "$2")" 2>/dev/null && pwd -P) || return 1
	[[ $folder/ == "${1%/}"/* ]]
}

# Root believes no list that somebody else may have written.
install_is_believed() # LIST
{
	[ "$(id -u)" -ne 0 ] || [ "$(stat -c %u -- "$1")" -eq 0 ]
}

# Removes the files that standard input names. Fails when lines named something that is not below
# PREFIX, which has no link in its path.
install_remove() # PREFIX
{
	local file left=0

	while IFS= read -r file; do
		if install_has "$1" "${file%/}"; then
			[[ $file = */ ]] || rm -f -- "$1/$file"
		elif [ -n "$file" ] && { [ -e "$1/$file" ] || [ -L "$1/$file" ]; }; then
			printf -v file %q "$file"
			warn "not removed, since it is not below $1: $file"
			left=$((left + 1))
		fi
	done
	[ "$left" -eq 0 ]
}

# Removes the folders that standard input names, if they are below PREFIX and empty.
install_remove_folders() # PREFIX
{
	local folder

	grep '/$' | sort -r | while IFS= read -r folder; do
		if install_has "$1" "${folder%/}"; then
			rmdir -- "$1/$folder" 2>/dev/null || true
		fi
	done || true
}

uninstall_list() # PREFIX
{
	local list=$1/lib/softhca/installed

	if [ ! -f "$list" ] || ! install_has "$1" lib/softhca/installed; then
		die 1 "nothing of softhca is installed below $1"
	fi
	install_is_believed "$list" || die 1 "$list belongs to uid $(stat -c %u -- "$list")," \
		"and may name any file: uninstall as that user"
	printf '%s\n' "$list"
}

uninstall_command()
{
	local asked prefix list names status=0

	asked=$(install_prefix uninstall "$@") || exit
	prefix=$(cd -P -- "$asked" 2>/dev/null && pwd -P) || die 1 "there is no folder $asked"
	list=$(uninstall_list "$prefix") || exit
	names=$(cat -- "$list")
	install_remove "$prefix" <<<"$names" || status=1
	rm -f -- "$list"
	install_remove_folders "$prefix" <<<"$names"
	[ "$status" -eq 0 ] || die 1 "removed from $prefix, but for what is named above"
	say "removed from $prefix"
}
