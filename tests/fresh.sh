#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The proof that two commands are enough: makes a minimal Debian, puts a clean copy of the tree in
# and runs `./build.sh demo` and `./build.sh test` there, as root and as a user without sudo.
# Needs root and apt's mirror. usage: tests/fresh.sh [KIND...]   (kinds for `test`; default all)
set -euo pipefail
top=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd -P)
# shellcheck source-path=SCRIPTDIR/..
{
	. "$top/scripts/say.sh"
	. "$top/scripts/packages.sh"
}

# The archive that apt itself uses for this release.
mirror()
{
	local release
	release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	# shellcheck disable=SC2016 # apt-get fills them in
	apt-get indextargets --format '$(REPO_URI) $(CODENAME) $(LABEL) $(COMPONENT)' \
		'Created-By: Packages' |
		awk -v release="$release" '$2 == release && $3 == "Debian" && $4 == "main" {
			print release, $1; exit }'
}

# What apt needs to know to reach the archive from inside, and the tree.
furnish()
{
	local file

	apt-config dump | grep -E '^Acquire::(http|https|ftp|Check|Retries|ForceIPv)' \
		>"$root/etc/apt/apt.conf.d/90reach" || true
	for file in /etc/hosts /etc/resolv.conf; do
		cp -L -- "$file" "$root$file"
	done
	chroot "$root" useradd -m -s /bin/bash person
	for file in root home/person; do
		mkdir "$root/$file/softhca"
		tar -C "$top" --exclude=./.git --exclude=./build --exclude='./build-*' \
			--exclude=__pycache__ -cf - . |
			tar -C "$root/$file/softhca" --no-same-owner -xf -
	done
	chroot "$root" chown -R person:person /home/person
}

# Not a chroot: in one, nobody may make user namespaces. $network is 'none' or 'host'.
enter() # COMMAND...
{
	local -a spaces=(-m)

	[ "$network" = host ] || spaces+=(-n)
	# shellcheck disable=SC2016 # for the inner shell
	unshare "${spaces[@]}" sh -euc '
		ip link set lo up
		mount --bind "$1" "$1"
		cd "$1"
		mount --rbind /dev dev
		mount --rbind /sys sys
		mount -t tmpfs none dev/shm
		mount -t proc proc proc
		mkdir -p .old
		pivot_root . .old
		umount -l /.old
		shift
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"' sh "$root" "$@" </dev/null
}

# step NAME EXPECTED-CODE COMMAND...
step()
{
	local name=$1 expected=$2 code=0 begun=$SECONDS
	shift 2
	printf '\n=== %s\n' "$name"
	enter "$@" || code=$?
	if [ "$code" -eq "$expected" ]; then
		rows+=("passed  $((SECONDS - begun)) s  $name")
	else
		rows+=("FAILED  $((SECONDS - begun)) s  $name: exit code $code, not $expected")
		failed=1
	fi
}

as_root() # WORD...
{
	printf '%s\0' env HOME=/root bash -c 'cd ~/softhca && exec ./build.sh "$@"' bash "$@"
}

as_person()
{
	printf '%s\0' setpriv --reuid person --regid person --init-groups env HOME=/home/person \
		bash -c 'cd ~/softhca && exec ./build.sh "$@"' bash "$@"
}

run_steps()
{
	local -a root_demo root_test person_demo person_test

	mapfile -d '' root_demo < <(as_root demo)
	mapfile -d '' root_test < <(as_root test "$@")
	mapfile -d '' person_demo < <(as_person demo)
	mapfile -d '' person_test < <(as_person test "$@")
	step 'user without sudo, packages missing: told what to install' 2 "${person_demo[@]}"
	step 'root: demo' 0 "${root_demo[@]}"
	network=none
	step 'user without sudo, without network: demo' 0 "${person_demo[@]}"
	network=host
	step 'root: test' 0 "${root_test[@]}"
	step 'user without sudo: test' 0 "${person_test[@]}"
}

clean()
{
	if findmnt -R "$root" >/dev/null; then
		warn "$root has mounts: left in place"
	else
		rm -rf --one-file-system -- "$root"
	fi
}

main()
{
	local release archive

	[ "$(id -u)" -eq 0 ] || die 2 "tests/fresh.sh needs root"
	packages_need fresh
	read -r release archive < <(mirror) || die 2 "apt names no Debian archive for this release"
	root=$(mktemp -d /var/tmp/softhca-fresh-XXXXXX)
	chmod 755 -- "$root"
	trap clean EXIT
	say "debootstrap $release into $root"
	debootstrap --variant=minbase "$release" "$root" "$archive" >"$root.log" 2>&1 ||
		die 1 "debootstrap failed: $root.log"
	rm -f -- "$root.log"
	furnish
	rows=() failed=0 network=host
	run_steps "$@"
	printf '\n=== fresh %s\n' "$release"
	printf '%s\n' "${rows[@]}"
	return "$failed"
}

main "$@"
