# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2034,SC2154 # $top, $network, $failed and $rows: the caller's
# A minimal Debian in a folder, with a clean copy of the tree for root and one for a user without
# sudo, and steps that are run inside and counted. For scripts that prove what a new machine does.

# This machine's release, and the archive that apt itself uses for it.
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

# minimal_make RELEASE ARCHIVE: sets $root
minimal_make()
{
	root=$(mktemp -d /var/tmp/softhca-root-XXXXXX)
	chmod 755 -- "$root"
	say "debootstrap $1 into $root"
	debootstrap --variant=minbase "$1" "$root" "$2" >"$root.log" 2>&1 ||
		die 1 "debootstrap failed: $root.log"
	rm -f -- "$root.log"
	furnish
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
	local name=$1 expected=$2 code=0 begun=$SECONDS took
	shift 2
	printf '\n=== %s\n' "$name"
	enter "$@" 2>&1 | tee -- "$root.out" || code=$?
	took=$(took "$((SECONDS - begun))" "$root.out")
	rm -f -- "$root.out"
	if [ "$code" -eq "$expected" ]; then
		rows+=("passed  $took  $name")
	else
		rows+=("FAILED  $took  $name: exit code $code, not $expected")
		failed=1
	fi
}

# What apt-get fetches and unpacks takes depends on the mirror, so it is told apart.
took() # SECONDS OUTPUT
{
	awk -v all="$1" '/ apt-get [a-z]+ took [0-9]+ s$/ { apt += $(NF - 1) }
		END { printf "%d s%s", all, apt ? " (" apt " s of apt-get)" : "" }' "$2"
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

clean()
{
	if findmnt -R "$root" >/dev/null; then
		warn "$root has mounts: left in place"
	else
		rm -rf --one-file-system -- "$root"
	fi
}
