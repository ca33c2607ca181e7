#!/bin/sh
# SPDX-License-Identifier: MIT
# Where there is no apt: what is missing, and the line of that family of systems. Where there is:
# packages that the administrator holds at their version are not missing.
set -eu
cd "$(dirname "$0")/../.."
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# A machine that has these programs, and FAMILY.
need() { # FAMILY
	mkdir "$tmp/$1"
	for name in bash tr "$1"; do
		ln -s "$(command -v "$name" || echo /bin/true)" "$tmp/$1/$name"
	done
	status=0
	# shellcheck disable=SC2016 # for the shell of that machine
	PATH="$tmp/$1" bash -euc '. scripts/say.sh; . scripts/packages.sh; packages_need build' \
		2>"$tmp/said" || status=$?
	[ "$status" = 2 ] || exit 1
}

for line in "dnf install -y .* rdma-core-devel " "zypper install -y .* libmnl-devel " \
	"apk add .* isa-l-dev$" "pacman -S --needed .* rdma-core "; do
	need "${line%% *}"
	grep -q "^$line" "$tmp/said" || {
		echo "FAIL: no '$line' in: $(cat "$tmp/said")"
		exit 1
	}
	grep -q 'missing: .*meson.*<infiniband/verbs.h>' "$tmp/said" || {
		echo "FAIL: what is missing: $(cat "$tmp/said")"
		exit 1
	}
done
need none
[ "$(wc -l <"$tmp/said")" = 1 ] || {
	echo "FAIL: $(cat "$tmp/said")"
	exit 1
}

mkdir "$tmp/held"
for name in bash tr grep sort; do
	ln -s "$(command -v "$name")" "$tmp/held/$name"
done
printf '#!/bin/bash\necho "hi "\n' >"$tmp/held/dpkg-query"
printf '#!/bin/bash\nexit 1\n' >"$tmp/held/apt-get"
chmod +x "$tmp/held/dpkg-query" "$tmp/held/apt-get"
PATH="$tmp/held" bash -euc '. scripts/say.sh; . scripts/packages.sh; packages_need build' \
	>"$tmp/said" 2>&1 || {
	echo "FAIL: packages are held, and it says: $(cat "$tmp/said")"
	exit 1
}
