# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # $top is build.sh's
# The owner of the clone builds and stages, whoever asked copies: so root may install from
# somebody else's clone and leaves no file there. Nothing in the tree depends on the prefix.

install_command()
{
	local prefix=/usr/local stage=$top/build/stage from

	case ${1-} in
	'') ;;
	--prefix) prefix=${2:?install --prefix DIR} ;;
	--prefix=?*) prefix=${1#--prefix=} ;;
	*) die 2 "usage: ./build.sh install [--prefix DIR]" ;;
	esac
	owner_run "$top/build.sh" build
	owner_run rm -rf -- "$stage"
	owner_run meson install -C "$top/build" --no-rebuild --quiet --destdir "$stage" >/dev/null
	from=$(find "$stage" -type d -name bin -printf '%h\n' -quit)
	[ -n "$from" ] || die 1 "the build installs no bin/ folder"
	mkdir -p -- "$prefix" || die 1 "cannot write to $prefix (root can)"
	cp -R -- "$from/." "$prefix/"
	owner_run rm -rf -- "$stage"
	say "installed below $prefix; try: $prefix/bin/softhca run -- ibv_devinfo"
}
