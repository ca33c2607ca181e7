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

install_command()
{
	local prefix stage=$top/build/stage from

	prefix=$(install_prefix install "$@") || exit
	owner_run "$top/build.sh" build
	from=$(install_stage "$top/build" "$stage") || exit
	mkdir -p -- "$prefix" || die 1 "cannot write to $prefix (root can)"
	cp -R -- "$from/." "$prefix/"
	(cd -- "$from" && find . ! -type d -printf '%P\n' | sort) >"$prefix/lib/softhca/installed"
	owner_run rm -rf -- "$stage"
	say "installed below $prefix; try: $prefix/bin/softhca run -- ibv_devinfo"
}

uninstall_command()
{
	local prefix list file

	prefix=$(install_prefix uninstall "$@") || exit
	list=$prefix/lib/softhca/installed
	[ -f "$list" ] || die 1 "nothing of softhca is installed below $prefix"
	while IFS= read -r file; do
		rm -f -- "$prefix/$file"
		(cd -- "$prefix" && rmdir -p -- "$(dirname -- "$file")" 2>/dev/null) || true
	done <"$list"
	rm -f -- "$list"
	(cd -- "$prefix" && rmdir -p lib/softhca 2>/dev/null) || true
	say "removed from $prefix"
}
