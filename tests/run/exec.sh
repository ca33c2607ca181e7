#!/bin/sh
# SPDX-License-Identifier: MIT
# traits: both
# The program takes the tool's place: arguments, pid, signals, status, descriptors, folder and
# environment are what they would be without softhca run.
# shellcheck source=tests/run/prelude.sh disable=SC2016 # scripts for a shell within the run
. "$(dirname "$0")/prelude.sh"

status() {
	set +e
	"$@" 2>"$tmp/err"
	code=$?
	set -e
}

for n in 0 1 42 255; do
	status "$softhca" run -- sh -c "exit $n"
	equal "exit status" "$n" "$code"
done
status "$softhca" run -- sh -c 'kill -KILL $$'
equal "killed program" 137 "$code"
status "$softhca" run -- "$tmp/nosuch"
equal "missing program" 127 "$code"
status "$softhca" run -- "$tmp"
equal "a folder as program" 126 "$code"
status "$softhca" run
equal "no program" 125 "$code"
status "$softhca" run --frobnicate true
equal "unknown option" 125 "$code"
status "$softhca" frobnicate
equal "unknown command" 125 "$code"

equal "arguments" "-x|a b||--|" "$("$softhca" run -- printf '%s|' -x 'a b' '' --)"
equal "without --" "x y" "$("$softhca" run echo x y)"
equal "standard input" "in" "$(echo in | "$softhca" run cat)"
echo seven >"$tmp/7"
equal "other descriptors" "seven" "$("$softhca" run sh -c 'cat <&7' 7<"$tmp/7")"
equal "no descriptor is added" "$(sh -c 'ls /proc/self/fd | wc -l')" \
	"$("$softhca" run sh -c 'ls /proc/self/fd | wc -l')"
equal "folder" "$tmp" "$(cd "$tmp" && "$softhca" run pwd -P)"
equal "user and group" "$(id -u):$(id -g)" "$("$softhca" run sh -c 'echo $(id -u):$(id -g)')"
equal "capabilities" "$(grep CapEff /proc/self/status)" \
	"$("$softhca" run grep CapEff /proc/self/status)"
# SOFTHCA_HOST_UID is there within somebody else's user namespace only.
others='^(_|LD_LIBRARY_PATH|TSAN_OPTIONS|SOFTHCA_HOST_UID)='
equal "environment" "$(env | grep -v -E "$others" | sort)" \
	"$("$softhca" run env | grep -v -E "$others" | sort)"
equal "pid" "$(sh -c 'echo $$; exec "$0" run sh -c "echo \$\$"' "$softhca" | uniq | wc -l)" 1

mkfifo "$tmp/ready"
"$softhca" run python3 -c '
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
open(sys.argv[1], "w").close()
sys.exit(signal.sigwait([signal.SIGUSR1]) + 100)' "$tmp/ready" &
pid=$!
: <"$tmp/ready"
kill -USR1 $pid
set +e
wait $pid
code=$?
set -e
equal "signal" 110 "$code"

lib=$("$softhca" run sh -c 'echo "$LD_LIBRARY_PATH"')
[ -e "$lib/libibverbs.so.1" ] || fail "no library in '$lib'"
equal "the path of the caller stays" "$lib:/a:/b" \
	"$(LD_LIBRARY_PATH=/a:/b "$softhca" run sh -c 'echo "$LD_LIBRARY_PATH"')"
equal "a run inside a run" "$lib|9" \
	"$("$softhca" run "$softhca" run sh -c 'echo "$LD_LIBRARY_PATH|9"' 2>&1)"
option=ignore_noninstrumented_modules=1
equal "ThreadSanitizer's option" "$option" \
	"$(unset TSAN_OPTIONS; "$softhca" run "$softhca" run sh -c 'echo "$TSAN_OPTIONS"')"
equal "the options of the caller stay" "$option:x=1" \
	"$(TSAN_OPTIONS=x=1 "$softhca" run sh -c 'echo "$TSAN_OPTIONS"')"
