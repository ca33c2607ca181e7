# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # $top is build.sh's
# Something to install where nothing is built: a tarball that may be unpacked anywhere, with the two
# libraries that a slim system lacks in a folder of their own (lib/softhca itself is on programs'
# library path, where they would take the place of the system's), and a Debian package that depends
# on them. Both have the same bytes for the same commit, in whatever folder it was built.

dist_command()
{
	local version name

	[ $# -eq 0 ] || die 2 "dist takes no arguments"
	version=$(sed -n "s/^  version: '\(.*\)',\$/\1/p" meson.build)
	name=softhca-$version-linux-$(uname -m)
	SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y meson.build)
	export SOURCE_DATE_EPOCH LC_ALL=C
	rm -rf -- build-dist/softhca[-_]* # of another version, too
	dist_compile build-dist/tarball -Dprivate_libs=true
	dist_tarball "$name"
	if command -v dpkg-deb >/dev/null; then
		dist_compile build-dist/package
		dist_package "$version"
	fi
	dist_sums | sed 's/^/    /'
	say "done: build-dist/$name.tar.gz; unpack it anywhere and try: bin/softhca run -- PROGRAM"
}

# There may be no package.
dist_sums() (
	cd -- build-dist || exit
	shopt -s nullglob
	sha256sum -- *.tar.gz *.deb
)

dist_compile() # FOLDER OPTION...
{
	local dir=$1 map
	shift
	# a list, since meson splits other texts at blanks
	map="['-ffile-prefix-map=$top=.', '-Wa,--debug-prefix-map=$top=.']"
	[[ $top != *[\'\\]* ]] || die 2 "meson takes no folder with a quote or a backslash: $top"
	# also for the linker, which compiles what is optimised as a whole
	compile "$dir" --prefix=/usr "-Dc_args=$map" "-Dc_link_args=$map" "$@"
}

dist_tarball() # NAME
{
	local from to=$top/build-dist/$1 lib

	from=$(install_stage "$top/build-dist/tarball" "$top/build-dist/stage" --strip) || exit
	rm -rf -- "$to"
	mv -- "$from" "$to"
	rm -rf -- "$top/build-dist/stage"
	mkdir -p -- "$to/lib/softhca/private" "$to/share/doc/softhca"
	cp -- LICENSE CHANGELOG.md "$to/share/doc/softhca/"
	for lib in libisal.so.2 libmnl.so.0; do
		dist_private "$lib" "$to"
	done
	cat >"$to/README" <<-END
		softhca: a software RDMA adapter. Nothing needs to be installed:

		    bin/softhca run -- ibv_devinfo
		    man -l share/man/man1/softhca.1

		lib/softhca/private has ISA-L (BSD) and libmnl (LGPL) as Debian builds them; their
		licences are in share/doc/softhca.
	END
	tar -C build-dist --sort=name --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw \
		--mtime="@$SOURCE_DATE_EPOCH" -cf - "$1" | gzip -9n >"build-dist/$1.tar.gz"
}

# A library of this system that the product is linked with, and its licence.
dist_private() # LIBRARY FOLDER
{
	local path package

	path=$(ldd "$2/lib/softhca/libibverbs.so.1" |
		awk -v lib="$1" '$1 == lib { print $3 }')
	[ -f "$path" ] || die 1 "libibverbs.so.1 is not linked with $1"
	cp -- "$(readlink -f -- "$path")" "$2/lib/softhca/private/$1"
	package=$(dpkg-query -S "$(readlink -f -- "$path")" 2>/dev/null | sed 's/:.*//;q') || true
	if [ -n "$package" ]; then
		cp -- "/usr/share/doc/$package/copyright" \
			"$2/share/doc/softhca/copyright.${1%.so*}"
	else
		warn "whose licence $1 has is not known here: add it to share/doc/softhca"
	fi
}

dist_package() # VERSION
{
	local from arch root=$top/build-dist/root doc

	arch=$(dpkg --print-architecture)
	from=$(install_stage "$top/build-dist/package" "$root" --strip) || exit
	doc=$from/share/doc/softhca
	mkdir -p -- "$root/DEBIAN" "$doc"
	gzip -9n -- "$from"/share/man/man1/*.1
	dist_changelog | gzip -9n >"$doc/changelog.gz"
	cp -- LICENSE "$doc/copyright"
	cat >"$root/DEBIAN/control" <<-END
		Package: softhca
		Version: $1
		Architecture: $arch
		Maintainer: softhca developers <softhca@localhost.localdomain>
		Depends: libc6 (>= $(dist_libc "$from")), libisal2, libmnl0
		Suggests: ibverbs-utils, perftest, rdmacm-utils
		Section: net
		Priority: optional
		Installed-Size: $(du -sk --apparent-size -- "$from" | cut -f1)
		Description: RDMA adapter in a library
		 Runs any unmodified RDMA program without an adapter, a kernel module, a
		 daemon or a privilege: softhca takes the place of libibverbs, libmlx5 and
		 librdmacm and does in software what a ConnectX-class adapter does, with
		 RoCEv2 on the wire.
		 .
		 The libraries lie in a folder of their own and are used by programs that are
		 started with "softhca run"; those of rdma-core stay as they are.
	END
	mkdir -p -- "$from/share/lintian/overrides"
	cat >"$from/share/lintian/overrides/softhca" <<-END
		# made by whoever builds it, for no archive
		softhca: bogus-mail-host *
		softhca: bogus-mail-host-in-debian-changelog *
	END
	find "$root" -type d -exec chmod 755 {} +
	find "$root" -type f -exec chmod 644 {} +
	chmod 755 -- "$from/bin/softhca"
	find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz --build "$root" \
		"build-dist/softhca_$1_$arch.deb" >/dev/null
	rm -rf -- "$root"
}

# The newest symbol version of the C library that anything in FOLDER asks for.
dist_libc() # FOLDER
{
	find "$1/bin" "$1/lib" -type f -exec objdump -p {} + 2>/dev/null |
		sed -n 's/.* GLIBC_\([0-9.]*\)$/\1/p' | sort -V | tail -n 1
}

# CHANGELOG.md in Debian's form.
dist_changelog()
{
	local date

	date=$(date -R -u -d "@$SOURCE_DATE_EPOCH")
	awk -v date="$date" '
		/^## / { if (open) end(); open = 1
			 printf "softhca (%s) unstable; urgency=medium\n\n", $2; next }
		open && /^- / { print "  * " substr($0, 3); next }
		open && /^  / { print "  " $0 }
		END { if (open) end() }
		function end() {
			printf "\n -- softhca developers <softhca@localhost.localdomain>  "
			printf "%s\n\n", date
		}' CHANGELOG.md
}
