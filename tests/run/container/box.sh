#!/bin/sh
# SPDX-License-Identifier: MIT
# A container, as a process sees it: own mounts, PIDs and IPC, a /dev of few nodes, a read-only
# /sys, the capabilities that Docker leaves, and what refuse.py takes away.
# usage: box.sh [-n] [-p] [-r] [-s] [-u UID] [-x REFUSED]... PROGRAM [ARGUMENT...]
#	-n  a network of its own, with lo up; else that of the caller
#	-p  the PIDs of the caller (--pid=host)
#	-r  nothing but /dev may be written (--read-only)
#	-s  no /dev/shm
#	-u  run as this user
#	-x  a word for refuse.py; without any it is `docker`
set -eu
here=$(cd "$(dirname "$0")" && pwd -P)
kept=chown,dac_override,fsetid,fowner,mknod,net_raw,setgid,setuid,setfcap,setpcap
kept=$kept,net_bind_service,sys_chroot,kill,audit_write

if [ "${BOX-}" = "" ]; then
	spaces=-miu network=caller pids=own
	for word; do
		case $word in
		-n) network=own spaces=${spaces}n ;;
		-p) pids=caller ;;
		-r | -s) ;;
		*) break ;;
		esac
	done
	export BOX="$network $pids"
	[ "$pids" = caller ] || exec unshare "$spaces" -pf --kill-child "$0" "$@"
	exec unshare "$spaces" "$0" "$@"
fi
network=${BOX% *} pids=${BOX#* } sealed='' shm=yes user='' refused=''
unset BOX
while getopts nprsu:x: option; do
	case $option in
	r) sealed=yes ;;
	s) shm='' ;;
	u) user=$OPTARG ;;
	x) refused="$refused $OPTARG" ;;
	*) ;;
	esac
done
shift $((OPTIND - 1))

# Files of the host's /dev, for which nobody has to make a node.
furnish_dev() # FOLDER
{
	mount -t tmpfs -o mode=755,nosuid dev "$1"
	for node in null zero full random urandom tty; do
		: >"$1/$node"
		mount --bind "/dev/$node" "$1/$node"
	done
	mkdir "$1/pts"
	mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$1/pts"
	for link in "ptmx pts/ptmx" "fd /proc/self/fd" "stdin /proc/self/fd/0" \
		"stdout /proc/self/fd/1" "stderr /proc/self/fd/2"; do
		ln -s "${link#* }" "$1/${link% *}"
	done
	[ -z "$shm" ] || mkdir "$1/shm"
	[ -z "$shm" ] || mount -t tmpfs -o mode=1777,nosuid,nodev shm "$1/shm"
}

seal() # FOLDER
{
	[ "$(findmnt -no TARGET -T "$1")" = "$1" ] || mount --bind "$1" "$1"
	mount -o "remount,bind,ro,$(findmnt -no VFS-OPTIONS "$1" | sed 's/\(^\|,\)rw\>/\1ro/')" "$1"
}

mount --make-rprivate /
[ "$network" = caller ] || ip link set lo up
[ "$pids" = caller ] || mount -t proc proc /proc
mkdir -p /mnt
mount -t tmpfs mnt /mnt
mkdir /mnt/dev
furnish_dev /mnt/dev
mount -n --move /mnt/dev /dev
umount /mnt
mount -t sysfs -o ro sysfs /sys 2>/dev/null || seal /sys
[ -z "$sealed" ] || for folder in / /tmp /var/tmp /run; do
	seal "$folder"
done
# shellcheck disable=SC2086,SC2016 # lists of words
exec /usr/bin/python3 "$here/refuse.py" ${refused:-docker} -- setpriv \
	--bounding-set="-all,+$(echo $kept | sed 's/,/,+/g')" --inh-caps=-all \
	${user:+--reuid=$user --regid=$user --clear-groups} "$@"
