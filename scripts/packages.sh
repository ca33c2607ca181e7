# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the machine must have. dpkg is asked first; apt, and for it root or sudo, is called only for
# what is missing; so a machine that has everything needs neither network nor privilege.

declare -A package_set=(
	[build]="gcc libc6-dev meson ninja-build pkg-config libibverbs-dev librdmacm-dev
		libmnl-dev libisal-dev"
	[demo]="ibverbs-utils perftest"
	[test]="libcmocka-dev git python3 python3-pyverbs python3-scapy infiniband-diags iproute2
		procps patch binutils tcpdump tshark clang libclang-rt-dev clang-format clang-tidy
		cppcheck shellcheck gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-system-x86
		seabios busybox-static kmod cpio zstd xz-utils ucx-utils openmpi-bin
		libopenmpi-dev mpich libmpich-dev rdmacm-utils fio libfabric-bin qperf iperf
		libucx-dev librpma-dev musl-tools"
	[aarch64]="qemu-user"
	[dist]="dpkg-dev binutils"
	[soak]="lintian chromium gdb strace valgrind tgt libiscsi-bin"
	[bench]="libcmocka-dev python3 qperf iperf3 ucx-utils iproute2 valgrind rdmacm-utils"
	[fresh]="debootstrap"
)

# What a release may lack (dapl has left Debian behind 12); tests that need it are skipped there.
declare -A package_maybe=([test]="dapl2-utils libdapl2")

# Elsewhere than on Debian: the programs and headers that these packages stand for.
declare -A tool_set=(
	[build]="cc meson ninja pkg-config"
	[demo]="ibv_devinfo ibv_rc_pingpong ib_write_bw ib_send_lat"
	[test]="git python3 unshare setpriv ip patch readelf clang clang-format clang-tidy cppcheck
		shellcheck aarch64-linux-gnu-gcc qemu-system-x86_64"
	[aarch64]="qemu-aarch64 apt-get"
	[dist]="objdump"
	[bench]="python3 qperf iperf3 ucx_perftest ip unshare nsenter setpriv valgrind"
	[fresh]="debootstrap"
)
declare -A header_set=(
	[build]="infiniband/verbs.h infiniband/mlx5dv.h rdma/rdma_cma.h libmnl/libmnl.h isa-l.h"
	[test]="cmocka.h"
	[bench]="cmocka.h"
)

# What other families call the packages of `build` and `demo`; tried on none of them.
declare -A family_install=(
	[dnf]="dnf install -y" [zypper]="zypper install -y" [apk]="apk add"
	[pacman]="pacman -S --needed"
)
declare -A family_set=(
	[dnf]="gcc meson ninja-build pkgconf-pkg-config rdma-core-devel libmnl-devel isa-l-devel
		libibverbs-utils perftest"
	[zypper]="gcc meson ninja pkg-config rdma-core-devel libmnl-devel isa-l-devel
		libibverbs-utils perftest"
	[apk]="build-base linux-headers meson samurai pkgconf rdma-core-dev libmnl-dev isa-l-dev"
	[pacman]="gcc meson ninja pkgconf rdma-core libmnl isa-l perftest"
)

# packages_need SET...: returns when all of them are there; exits 2 when they cannot be had
packages_need()
{
	local missing

	if ! { command -v dpkg-query && command -v apt-get; } >/dev/null; then
		packages_elsewhere "$@"
		return
	fi
	for _ in first 'with the lists that the first has fetched'; do
		missing=$(packages_missing "$@")
		[ -n "$missing" ] || return 0
		missing=${missing//$'\n'/ }
		say "missing packages: $missing"
		# shellcheck disable=SC2086 # a list of package names
		packages_install $missing
	done
	missing=$(packages_missing "$@")
	[ -z "$missing" ] || die 2 "apt is done, but these packages are still missing: $missing"
}

# One name a line.
packages_missing()
{
	local set name

	for set in "$@"; do
		for name in ${package_set[$set]}; do
			packages_has "$name" || printf '%s\n' "$name"
		done
		for name in ${package_maybe[$set]:-}; do
			packages_has "$name" || ! packages_known "$name" || printf '%s\n' "$name"
		done
	done | sort -u
}

# Of dpkg's two letters the second says whether a package is installed; the first says what is
# wanted, and 'h' (held) is as good as 'i'.
packages_has() # NAME
{
	[[ $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) == ?i* ]]
}

packages_known() # NAME: whether apt's lists have it
{
	[[ $(LC_ALL=C apt-cache policy "$1" 2>/dev/null) == *'Candidate: '[!\(]* ]]
}

packages_install()
{
	local -a elevate=()

	if [ "$(id -u)" -ne 0 ]; then
		packages_sudo "$@"
		elevate=("${sudo_command[@]}")
	fi
	if compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
		packages_apt install "$@" && return
		say "apt could not do it with the lists it has: fetching new ones"
	fi
	packages_apt update || die 2 "apt-get could not fetch the package lists"
	packages_apt install "$@" || die 2 "apt-get could not install: $*"
}

# Runs apt-get through the caller's $elevate. A line every 5 s shows where it is; its last 20 are
# shown when it fails.
packages_apt()
{
	local verb=$1 log begun=$SECONDS
	local -a options=(-q -y -o DPkg::Lock::Timeout=300)

	shift
	[ "$verb" = update ] || options+=(--no-install-recommends)
	say "apt-get $verb${*:+ $*}"
	log=$(mktemp)
	if "${elevate[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "$verb" "${options[@]}" "$@" \
		2>&1 </dev/null | tee -- "$log" | packages_progress; then
		rm -f -- "$log"
		say "apt-get $verb took $((SECONDS - begun)) s"
		return 0
	fi
	tail -n 20 -- "$log" >&2
	rm -f -- "$log"
	return 1
}

packages_progress()
{
	local line begin=$SECONDS next=$((SECONDS + 5))

	trap '' PIPE # nobody may be reading: apt goes on all the same
	while IFS= read -r line; do
		[ "$SECONDS" -ge "$next" ] || continue
		printf '    %d s: %.80s\n' $((SECONDS - begin)) "$line" 2>/dev/null || true
		next=$((SECONDS + 5))
	done
}

# Sets sudo_command, or prints what an administrator has to type and exits 2.
packages_sudo()
{
	sudo_command=(sudo)
	[ -t 0 ] || sudo_command=(sudo -n)
	if command -v sudo >/dev/null && "${sudo_command[@]}" true 2>/dev/null; then
		return
	fi
	warn "these Debian packages are missing, and sudo cannot install them here;"
	warn "an administrator can, with this line:"
	printf 'apt-get update && apt-get install -y --no-install-recommends %s\n' "$*" >&2
	exit 2
}

# Not Debian: says what is missing. Only what the build itself needs is fatal; a test or a demo
# that lacks a program says so itself.
packages_elsewhere()
{
	local set name missing='' fatal=0

	for set in "$@"; do
		for name in ${tool_set[$set]}; do
			command -v "$name" >/dev/null || missing+=" $name"
		done
		for name in ${header_set[$set]-}; do
			header_present "$name" || missing+=" <$name>"
		done
		if [ "$set" = build ] && [ -n "$missing" ]; then
			fatal=1
		fi
	done
	[ -n "$missing" ] || return 0
	warn "this is not Debian, and these tools and headers are missing:$missing"
	packages_family
	[ "$fatal" -eq 0 ] || exit 2
}

# The line for an administrator of a machine that has one of these programs.
packages_family()
{
	local family

	for family in "${!family_set[@]}"; do
		command -v "$family" >/dev/null || continue
		warn "an administrator can, with this line, for the build and the demo:"
		# shellcheck disable=SC2086 # a list of package names
		echo "${family_install[$family]}" ${family_set[$family]} >&2
	done
}

header_present()
{
	printf '#include <%s>\n' "$1" | cc -D_GNU_SOURCE -E -x c -o /dev/null - 2>/dev/null
}
