# SPDX-License-Identifier: MIT
# shellcheck shell=bash disable=SC2154 # $top is build.sh's
# Root in somebody else's clone must leave no file of his there: all but apt runs as the owner.

owner_uid=$(stat -c %u -- "$top")
owner_gid=$(stat -c %g -- "$top")

owner_differs()
{
	[ "$(id -u)" -eq 0 ] && [ "$owner_uid" -ne 0 ]
}

# owner_run COMMAND...: as the clone's owner when root started us, else as we are
owner_run()
{
	if owner_differs; then
		(owner_exec "$@")
	else
		"$@"
	fi
}

owner_exec()
{
	local home groups=--clear-groups

	home=$(getent passwd "$owner_uid" | cut -d: -f6) || home=
	[ -z "$home" ] || groups=--init-groups
	exec setpriv --reuid="$owner_uid" --regid="$owner_gid" "$groups" \
		env -u XDG_RUNTIME_DIR -u SUDO_USER HOME="${home:-/tmp}" "$@"
}
