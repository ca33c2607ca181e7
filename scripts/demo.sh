# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Debian's own programs, unmodified, in two processes each, over the emulated HCA.

demo_command()
{
	local port

	[ $# -eq 0 ] || die 2 "demo takes no arguments"
	compile build
	demo_failed=0
	demo_dir=$(mktemp -d)
	trap demo_clean EXIT
	demo_devinfo
	port=$(demo_free_port 18515)
	demo_pair "$port" 'iters in' ibv_rc_pingpong -g 3 -c -n 20000 -p "$port"
	port=$(demo_free_port $((port + 1)))
	demo_pair "$port" '#bytes' ib_write_bw -F -s 65536 -n 20000 -p "$port"
	port=$(demo_free_port $((port + 1)))
	demo_pair "$port" '#bytes' ib_send_lat -F -s 8 -n 20000 -p "$port"
	if [ "$demo_failed" -ne 0 ]; then
		die 1 "demo: $demo_failed of 4 programs FAILED"
	fi
	say "demo: all 4 programs passed, each an unmodified Debian binary over the emulated HCA"
}

demo_clean()
{
	local pid

	for pid in $(jobs -p); do
		kill -- "$pid" 2>/dev/null || true
	done
	rm -rf -- "$demo_dir"
}

demo_devinfo()
{
	local out=$demo_dir/devinfo

	say "ibv_devinfo"
	if ./build/softhca run -- ibv_devinfo >"$out" 2>&1 </dev/null &&
		grep -q 'PORT_ACTIVE' "$out"; then
		demo_show "$out" 'hca_id|fw_ver|vendor_id|state|active_mtu|link_layer'
		printf '    passed\n'
	else
		demo_fail "$out"
	fi
}

# demo_pair PORT FIGURES PROGRAM ARGUMENT...: the server, and once it listens the client. FIGURES
# is what the client's output must contain.
demo_pair()
{
	local port=$1 figures=$2 server client=$demo_dir/client
	shift 2
	say "$*"
	timeout 40 ./build/softhca run -- "$@" >"$demo_dir/server" 2>&1 </dev/null &
	server=$!
	if demo_wait_listen "$port" "$server" &&
		timeout 40 ./build/softhca run -- "$@" 127.0.0.1 >"$client" 2>&1 </dev/null &&
		wait "$server" && grep -q -- "$figures" "$client" &&
		! grep -q 'invalid data' "$client" "$demo_dir/server"; then
		demo_show "$client" 'bytes in|iters in|^ *#bytes|^ *[0-9]+ +[0-9]+ +[0-9.]+ '
		printf '    passed\n'
		return
	fi
	kill -- "$server" 2>/dev/null || true
	wait "$server" || true
	demo_fail "$demo_dir/server" "$client"
}

demo_show()
{
	grep -E -- "$2" "$1" | sed 's/^[[:space:]]*/    /'
}

demo_fail()
{
	local out

	for out in "$@"; do
		[ ! -f "$out" ] || tail -n 20 -- "$out" | sed "s/^/    ${out##*\/}: /"
	done
	printf '    FAILED\n'
	rm -f -- "$@"
	demo_failed=$((demo_failed + 1))
}

demo_listens() # PORT
{
	awk -v port=":$(printf '%04X' "$1")" '
		substr($2, length($2) - 4) == port && $4 == "0A" { found = 1 }
		END { exit !found }' /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

demo_free_port() # FIRST
{
	local port=$1

	while demo_listens "$port"; do
		port=$((port + 1))
	done
	printf '%s\n' "$port"
}

# The programs' own bootstrap does not try again: a client that is too early fails.
demo_wait_listen() # PORT SERVER-PID
{
	local deadline=$((SECONDS + 20))

	while ! demo_listens "$1"; do
		kill -0 "$2" 2>/dev/null || return 1
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.02
	done
}
