# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # $top and $caller are build.sh's
# The owner of the clone builds and stages, whoever asked copies: so root may install from
# somebody else's clone and leaves no file there. Nothing in the tree depends on the prefix.
# What was installed is listed in PREFIX/lib/softhca/installed, which uninstall reads.

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

# The list comes first, so that what a full disk has left can be uninstalled. Files are replaced,
# not written to: programs that run have mapped them.
install_command()
{
	local prefix stage=$top/build/stage from list

	prefix=$(install_prefix install "$@") || exit
	list=$prefix/lib/softhca/installed
	owner_run "$top/build.sh" build
	from=$(install_stage "$top/build" "$stage") || exit
	mkdir -p -- "$prefix/lib/softhca" || die 1 "cannot write to $prefix (root can)"
	rm -f -- "$list"
	(cd -- "$from" && find . ! -type d -printf '%P\n' | sort) >"$list"
	cp -R --remove-destination -- "$from/." "$prefix/"
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
uninstall_list() # PREFIX
{
	local list=$1/lib/softhca/installed owner

	if [ ! -f "$list" ] || ! install_has "$1" lib/softhca/installed; then
		die 1 "nothing of softhca is installed below $1"
	fi
	owner=$(stat -c %u -- "$list")
	if [ "$(id -u)" -eq 0 ] && [ "$owner" -ne 0 ]; then
		die 1 "$list belongs to uid $owner, and may name any file: uninstall as that user"
	fi
	printf '%s\n' "$list"
}

uninstall_command()
{
	local asked prefix list file left=0

	asked=$(install_prefix uninstall "$@") || exit
	prefix=$(cd -P -- "$asked" 2>/dev/null && pwd -P) || die 1 "there is no folder $asked"
	list=$(uninstall_list "$prefix") || exit
	while IFS= read -r file; do
		if install_has "$prefix" "$file"; then
			rm -f -- "$prefix/$file"
			(cd -- "$prefix" && rmdir -p -- "$(dirname -- "$file")" 2>/dev/null) || true
		elif [ -e "$prefix/$file" ] || [ -L "$prefix/$file" ]; then
			printf -v file %q "$file"
			warn "not removed, since it is not below $prefix: $file"
			left=$((left + 1))
		fi
	done <"$list"
	rm -f -- "$list"
	(cd -- "$prefix" && rmdir -p lib/softhca 2>/dev/null) || true
	[ "$left" -eq 0 ] || die 1 "removed from $prefix, but for $left lines of the list"
	say "removed from $prefix"
}
