# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # $top is build.sh's
# The other architecture: all of it cross-built, and the tests that need no device run by
# qemu-user. The libraries and headers of arm64 come from Debian's own packages, which are unpacked
# into a folder and not installed: apt keeps the lists for them there too, so the machine's own apt
# never hears of a second architecture.

aarch64_packages="libisal2 libisal-dev libmnl0 libmnl-dev libcmocka0 libcmocka-dev libibverbs1
	libibverbs-dev librdmacm1 librdmacm-dev"

aarch64_command() # [KIND/NAME...]
{
	local status=0

	[ $# -gt 0 ] || set -- unit sim
	aarch64_fetch
	compile build-aarch64 --cross-file build-aarch64-root/cross.ini -Dtests=true -Dwerror=true
	# an unused uid, which may not enter the clone, must find the libraries too
	aarch64_dir=$(mktemp -d)
	trap 'rm -rf -- "$aarch64_dir"' EXIT
	chmod 755 -- "$aarch64_dir"
	cp -a -- build-aarch64-root/usr/lib/aarch64-linux-gnu/*.so* "$aarch64_dir"
	tests_run build-aarch64 --machine aarch64 --under "qemu-aarch64 -L /usr/aarch64-linux-gnu \
-E LD_LIBRARY_PATH=$aarch64_dir" "$@" || status=$?
	rm -rf -- "$aarch64_dir"
	trap - EXIT
	return "$status"
}

# Into build-aarch64-root, once.
aarch64_fetch()
{
	local root=$top/build-aarch64-root log

	[ ! -f "$root/cross.ini" ] || return 0
	command -v apt-get >/dev/null || die 2 "aarch64 needs apt-get, for Debian's arm64 libraries"
	say "fetching Debian's arm64 libraries"
	rm -rf -- "$root"
	mkdir -p -- "$root"/apt/state/lists/partial "$root"/apt/cache/archives/partial
	log=$root/apt/log
	if ! (cd -- "$root/apt" && aarch64_download) >"$log" 2>&1; then
		tail -n 5 -- "$log" >&2
		die 2 "apt-get could not fetch them"
	fi
	rm -rf -- "$root/apt"
	aarch64_cross_file "$root" >"$root/cross.ini"
}

aarch64_download()
{
	local deb
	local -a options=(-q -o APT::Architecture=arm64 -o APT::Architectures=arm64
		-o "Dir::State=$PWD/state" -o Dir::State::status=/dev/null
		-o "Dir::Cache=$PWD/cache" -o APT::Sandbox::User=root)

	apt-get "${options[@]}" update || return
	# shellcheck disable=SC2086 # a list of package names
	apt-get "${options[@]}" download $aarch64_packages || return
	for deb in *.deb; do
		dpkg -x "$deb" .. || return
	done
}

# -B, unlike -L, also tells -print-file-name, by which src/verbs looks for the system's libibverbs.
aarch64_cross_file() # ROOT
{
	cat <<-EOF
		[constants]
		root = '$1'
		lib = root / 'usr/lib/aarch64-linux-gnu'
		[binaries]
		c = ['aarch64-linux-gnu-gcc', '-B' + lib, '-isystem', root / 'usr/include']
		ar = 'aarch64-linux-gnu-ar'
		strip = 'aarch64-linux-gnu-strip'
		pkgconfig = 'pkg-config'
		[properties]
		sys_root = root
		pkg_config_libdir = lib / 'pkgconfig'
		[built-in options]
		c_link_args = ['-L' + lib, '-Wl,-rpath-link,' + lib]
		[host_machine]
		system = 'linux'
		cpu_family = 'aarch64'
		cpu = 'armv8-a'
		endian = 'little'
	EOF
}
