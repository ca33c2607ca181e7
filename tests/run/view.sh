#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# The HCA in /sys and /dev as clients and diagnostic tools read it, and the rest as before.
# shellcheck source=tests/run/prelude.sh disable=SC2016 # scripts for a shell within the run
. "$(dirname "$0")/prelude.sh"
need_view
ip addr show lo | grep -q 127.0.0.1 || skip "lo is down"
export SOFTHCA_DEVICES=mlx5_0=lo

read_sys() {
	"$softhca" run cat "/sys/class/infiniband/mlx5_0/$1"
}

equal "GID type" "RoCE v2" "$(read_sys ports/1/gid_attrs/types/3)"
equal "GID type" "IB/RoCE v1" "$(read_sys ports/1/gid_attrs/types/2)"
equal "GID" "0000:0000:0000:0000:0000:ffff:7f00:0001" "$(read_sys ports/1/gids/3)"
equal "empty GID" "0000:0000:0000:0000:0000:0000:0000:0000" "$(read_sys ports/1/gids/15)"
equal "netdev of a GID" lo "$(read_sys ports/1/gid_attrs/ndevs/3)"
equal "state" "4: ACTIVE" "$(read_sys ports/1/state)"
equal "link layer" Ethernet "$(read_sys ports/1/link_layer)"
equal "node type" "1: CA" "$(read_sys node_type)"
equal "pkey" 0xffff "$(read_sys ports/1/pkeys/0)"
equal "a counter" 0 "$(read_sys ports/1/counters/port_xmit_data)"

# What UCX, NCCL, hwloc and ibstat read, and every counter that the mlx5 driver has.
for name in node_guid sys_image_guid fw_ver hca_type hw_rev board_id node_type node_desc \
	device/vendor device/device device/subsystem_vendor device/subsystem_device device/class \
	device/numa_node device/local_cpus device/local_cpulist device/uevent \
	device/current_link_speed device/current_link_width device/max_link_speed \
	device/max_link_width ports/1/state ports/1/phys_state ports/1/rate ports/1/lid \
	ports/1/sm_lid ports/1/sm_sl ports/1/lid_mask_count ports/1/cap_mask ports/1/link_layer \
	ports/1/gids/0 ports/1/gid_attrs/types/0 ports/1/gid_attrs/ndevs/0 ports/1/pkeys/0; do
	echo "$name"
done >"$tmp/names"
for name in VL15_dropped excessive_buffer_overrun_errors link_downed link_error_recovery \
	local_link_integrity_errors multicast_rcv_packets multicast_xmit_packets \
	port_rcv_constraint_errors port_rcv_data port_rcv_errors port_rcv_packets \
	port_rcv_remote_physical_errors port_rcv_switch_relay_errors port_xmit_constraint_errors \
	port_xmit_data port_xmit_discards port_xmit_packets port_xmit_wait symbol_error \
	unicast_rcv_packets unicast_xmit_packets; do
	echo "ports/1/counters/$name"
done >>"$tmp/names"
for name in duplicate_request implied_nak_seq_err lifespan local_ack_timeout_err np_cnp_sent \
	np_ecn_marked_roce_packets out_of_buffer out_of_sequence packet_seq_err req_cqe_error \
	req_cqe_flush_error req_remote_access_errors req_remote_invalid_request resp_cqe_error \
	resp_cqe_flush_error resp_local_length_error resp_remote_access_errors rnr_nak_retry_err \
	roce_adp_retrans roce_adp_retrans_to roce_slow_restart roce_slow_restart_cnps \
	roce_slow_restart_trans rp_cnp_handled rp_cnp_ignored rx_atomic_requests \
	rx_icrc_encapsulated rx_read_requests rx_write_requests; do
	echo "ports/1/hw_counters/$name"
done >>"$tmp/names"
"$softhca" run sh -c 'cd /sys/class/infiniband/mlx5_0 && while read -r name; do
	[ -n "$(cat "$name")" ] || echo "$name"; done' <"$tmp/names" >"$tmp/empty" 2>&1 ||
	fail "the folder of mlx5_0"
[ ! -s "$tmp/empty" ] || fail "not there, or empty: $(cat "$tmp/empty")"

equal "PCI vendor" 0x15b3 "$(read_sys device/vendor)"
equal "PCI device" 0x1021 "$(read_sys device/device)"
equal "driver" mlx5_core \
	"$("$softhca" run sh -c 'basename $(readlink /sys/class/infiniband/mlx5_0/device/driver)')"
equal "netdev" lo "$("$softhca" run ls /sys/class/infiniband/mlx5_0/device/net/)"
equal "verbs device" "mlx5_0 1:3" \
	"$("$softhca" run sh -c 'cd /sys/class/infiniband_verbs/uverbs0; echo $(cat ibdev dev)')"
"$softhca" run sh -c 'test -c /dev/infiniband/uverbs0 -a -r /dev/infiniband/uverbs0 \
	-a -w /dev/infiniband/uverbs0 && : <>/dev/infiniband/uverbs0' ||
	fail "uverbs0 is no readable and writable character device"
equal "devices" "mlx5_0 mlx5_1" "$(SOFTHCA_DEVICES=mlx5_0=lo,mlx5_1=lo "$softhca" run sh -c '
	test -c /dev/infiniband/uverbs1 && echo $(ls /sys/class/infiniband)')"
guids=$(SOFTHCA_DEVICES=mlx5_0=lo,mlx5_1=lo "$softhca" run sh -c \
	'sort -u /sys/class/infiniband/*/node_guid | wc -l')
equal "two GUIDs for two devices" 2 "$guids"
if "$softhca" run sh -c 'mkdir /sys/class/x || echo 1 >/sys/class/infiniband/mlx5_0/fw_ver' \
	2>/dev/null; then
	fail "/sys/class can be written"
fi

# Everybody may look, whatever the umask, which is the program's.
if setpriv --reuid 1 --clear-groups true 2>/dev/null; then
	equal "another user, umask 077" "uverbs0 mlx5_0" "$(umask 077 && "$softhca" run setpriv \
		--reuid 1 --clear-groups sh -c \
		'echo $(ls /dev/infiniband/ /sys/class/infiniband/ | grep "[0-9]$")' 2>&1)"
fi
equal "umask" 0077 "$(umask 077 && "$softhca" run sh -c umask)"

if command -v ibstat >/dev/null; then
	"$softhca" run ibstat >"$tmp/ibstat" || fail "ibstat"
	for line in "CA 'mlx5_0'" "State: Active" "Physical state: LinkUp" "Link layer: Ethernet" \
		"CA type: MT4129"; do
		grep -q "$line" "$tmp/ibstat" || fail "ibstat lists no '$line'"
	done
fi
if command -v lstopo-no-graphics >/dev/null; then # hwloc
	"$softhca" run lstopo-no-graphics >"$tmp/lstopo" || fail "lstopo"
	grep -q 'OpenFabrics "mlx5_0"' "$tmp/lstopo" || fail "lstopo shows no mlx5_0"
fi

# Names, types, link targets, device numbers, inodes of everything but what is ours and what a
# process sees of itself. What others add or remove meanwhile was not there before or is not
# afterwards.
cat >"$tmp/list.py" <<'END'
import os, stat
OURS = ("infiniband", ".softhca", "ptmx") # that is a link to the real one
def show(path):
    try:
        st = os.lstat(path)
    except FileNotFoundError: # it is gone meanwhile
        return
    if stat.S_ISLNK(st.st_mode):
        print(path, os.readlink(path))
    else:
        print(path, oct(st.st_mode), st.st_dev, st.st_ino, st.st_rdev)
for top, depth in (("/sys", 1), ("/sys/class", 2), ("/dev", 2)):
    for folder, folders, files in os.walk(top):
        below = folder.count("/") - top.count("/")
        folders[:] = [] if below >= depth - 1 else [
            name for name in folders if not os.path.islink(os.path.join(folder, name))
            and not name.startswith(OURS) and name not in ("pts", "shm")]
        for name in sorted(os.listdir(folder)):
            path = os.path.join(folder, name)
            if not name.startswith(OURS) and path != "/sys/class":
                show(path)
END
python3 "$tmp/list.py" | sort -u >"$tmp/before"
"$softhca" run python3 "$tmp/list.py" | sort -u >"$tmp/within"
python3 "$tmp/list.py" | sort -u >"$tmp/after"
[ "$(wc -l <"$tmp/before")" -gt 50 ] || fail "hardly anything was listed"
comm -12 "$tmp/before" "$tmp/after" | comm -23 - "$tmp/within" >"$tmp/diff"
[ ! -s "$tmp/diff" ] || fail "not there: $(cat "$tmp/diff")"
sort -u "$tmp/before" "$tmp/after" | comm -13 - "$tmp/within" >"$tmp/diff"
[ ! -s "$tmp/diff" ] || fail "new: $(cat "$tmp/diff")"
equal "/dev/zero" 5 "$("$softhca" run head -c 5 /dev/zero | wc -c)"
"$softhca" run sh -c 'echo >/dev/null && echo >/dev/shm/softhca.$$ && rm /dev/shm/softhca.$$' ||
	fail "/dev/null or /dev/shm cannot be written"
[ ! -e /sys/class/.softhca ] || fail "something is left outside"
pty='import os, pty; ours, theirs = pty.openpty(); os.ttyname(theirs); print("works")'
if [ "$(python3 -c "$pty" 2>/dev/null)" = works ]; then
	equal "a new terminal" works "$("$softhca" run python3 -c "$pty" 2>&1 | tail -1)"
	equal "and in a run within a run" works \
		"$("$softhca" run "$softhca" run python3 -c "$pty" 2>&1 | tail -1)"
fi
equal "mounts outside" 0 "$(grep -c ' - tmpfs softhca ' /proc/self/mountinfo || :)"
