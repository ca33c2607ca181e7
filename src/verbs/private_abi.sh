#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints the number in IBVERBS_PRIVATE_<number> of the libibverbs that this machine's programs are
# linked with: its libefa and pyverbs ask for exactly that version node.
# Usage: private_abi.sh COMPILER...
set -eu
lib=$("$@" -print-file-name=libibverbs.so)
test -e "$lib" || { echo "libibverbs.so not found: is libibverbs-dev installed?" >&2; exit 1; }
abi=$(readelf -WV "$lib" | sed -n 's/.*Name: IBVERBS_PRIVATE_\([0-9][0-9]*\).*/\1/p' | head -n 1)
test -n "$abi" || { echo "$lib has no IBVERBS_PRIVATE version node" >&2; exit 1; }
echo "$abi"
