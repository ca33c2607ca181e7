#!/bin/bash
# SPDX-License-Identifier: MIT
# image.sh DIR: makes in DIR what a guest boots: the kernel of Debian, unpacked and never installed
# (vmlinux), and an initramfs with rdma_rxe, the tools of rdma-core and perftest (initramfs.gz), to
# which a test adds the guest's first process. Needs apt, and no privilege.
set -euo pipefail
dir=$(realpath -m -- "$1")
programs="ip tc rdma ibv_devinfo ibv_rc_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_srq_pingpong
	ib_send_bw ib_send_lat ib_write_bw ib_write_lat ib_read_bw ib_read_lat ib_atomic_bw
	ib_atomic_lat rping ucmatose udaddy mckey rdma_client rdma_server rdma_xclient
	rdma_xserver rstream cmtime"
# rxe asks the kernel's crypto API for "crc32" by name: no module lists it as a dependency.
modules="virtio_pci virtio_net virtio_console rdma_rxe rdma_ucm ib_uverbs crc32_generic
	crc32-pclmul sch_netem sch_ingress cls_matchall cls_u32 act_mirred act_gact ifb"
PATH=$PATH:/usr/sbin:/sbin # depmod, for users

# The "cloud" flavour has no rdma_rxe.
fetch_kernel() {
	local meta=linux-image-6.12-amd64 package

	apt-cache show "$meta" >/dev/null 2>&1 || meta=linux-image-amd64
	package=$(apt-cache depends "$meta" | awk '/Depends: linux-image-[0-9]/ { print $2; exit }')
	[ -n "$package" ] || return 1
	rm -rf "$dir/root" "$dir/deb"
	mkdir -p "$dir/root" "$dir/deb"
	(cd "$dir/deb" && apt-get download -qq -o APT::Sandbox::User=root "$package") || return
	dpkg -x "$dir"/deb/*.deb "$dir/root" || return
	rm -rf "$dir/deb"
	version=${package#linux-image-}
	depmod -b "$dir/root" "$version"
}

# bzImage to vmlinux, so that the guest need not unpack it in emulation.
unpack_kernel() {
	local image=$dir/root/boot/vmlinuz-$version out=$dir/vmlinux magic tool offset

	while read -r magic tool; do
		while read -r offset; do
			tail -c "+$((offset + 1))" "$image" | $tool >"$out" 2>/dev/null || true
			[ "$(head -c 4 "$out" | od -An -tx1 | tr -d ' \n')" != 7f454c46 ] ||
				return 0
		done < <(LC_ALL=C grep -aobP "$magic" "$image" | cut -d: -f1 | head -8)
	done <<-'EOF'
		\x28\xb5\x2f\xfd zstd -dcq
		\xfd7zXZ\x00 xz -dc
		\x1f\x8b\x08 gzip -dc
	EOF
	echo "image.sh: cannot unpack $image" >&2
	return 1
}

# A program or a shared object, with everything that ldd finds for it.
copy_elf() {
	local file

	[ -e "$tree$1" ] || install -D "$1" "$tree$1"
	while read -r file; do
		[ -e "$tree$file" ] || install -D "$(readlink -f "$file")" "$tree$file"
	done < <(ldd "$1" 2>/dev/null | grep -o '/[^ ]*')
}

copy_programs() {
	local name path

	install "$(command -v busybox)" "$tree/bin/busybox"
	for name in $(busybox --list); do
		[ "$name" = busybox ] || ln -sf busybox "$tree/bin/$name"
	done
	ln -sf ../bin/busybox "$tree/sbin/modprobe" # the kernel's request_module()
	# busybox's shell would take its own ip and tc before those of PATH
	rm -f "$tree/bin/ip" "$tree/bin/tc" "$tree/bin/sh"
	copy_elf "$(readlink -f "$(command -v dash)")"
	ln -sf "$(readlink -f "$(command -v dash)")" "$tree/bin/sh"
	for name in $programs; do
		path=$(readlink -f "$(command -v "$name")")
		copy_elf "$path"
		ln -sf "$path" "$tree/bin/$name"
	done
	for path in /usr/lib/*/libgcc_s.so.1 /lib/*/libgcc_s.so.1 \
		/usr/lib/*/libibverbs/librxe-rdmav*.so; do
		[ ! -e "$path" ] || copy_elf "$path"
	done
	cp /etc/libibverbs.d/rxe.driver "$tree/etc/libibverbs.d/"
}

copy_modules() {
	local name file to

	for name in $modules; do
		modprobe -d "$dir/root" -S "$version" --show-depends "$name" 2>/dev/null || true
	done | awk '$1 == "insmod" { print $2 }' | sort -u | while read -r file; do
		to=$tree/lib/modules/$version/${file#*"/modules/$version/"}
		mkdir -p "$(dirname "$to")"
		case $file in
		*.xz) xz -dc "$file" >"${to%.xz}" ;;
		*) cp "$file" "$to" ;;
		esac
	done
	cp "$dir/root/lib/modules/$version"/modules.{builtin,builtin.modinfo,order} \
		"$tree/lib/modules/$version/"
	depmod -b "$tree" "$version"
}

make_initramfs() {
	tree=$dir/initramfs
	rm -rf "$tree"
	mkdir -p "$tree"/{bin,sbin,dev,proc,sys,tmp,etc/libibverbs.d,root,run,usr/bin}
	copy_programs
	copy_modules
	echo 'root:x:0:0:root:/root:/bin/sh' >"$tree/etc/passwd"
	(cd "$tree" && find . | LC_ALL=C sort | cpio -o -H newc --quiet -R 0:0 | gzip -1) \
		>"$dir/initramfs.part"
	rm -rf "$tree"
	mv "$dir/initramfs.part" "$dir/initramfs.gz" # last, so that half an image is none
}

fetch_kernel || {
	echo "image.sh: trying again with new package lists" >&2
	apt-get update -qq
	fetch_kernel
}
unpack_kernel
make_initramfs
rm -rf "$dir/root"
