#!/bin/sh
# SPDX-License-Identifier: MIT
# Makes BUILD/lib look like the installed PREFIX/lib/softhca: NAME.so.1 and its dev name NAME.so,
# or a NAME.so alone.
# Usage: lib_links.sh STAMP LIBRARY DIRECTORY
set -eu
stamp=$1 lib=$2 dir=$3
name=$(basename "$lib")
mkdir -p "$dir"
ln -sfr "$lib" "$dir/$name"
[ "$name" = "${name%.1}" ] || ln -sf "$name" "$dir/${name%.1}"
touch "$stamp"
