#!/usr/bin/env bash
# Cyclone DDS from Debian.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
need_programs cc:gcc
need_packages cyclonedds-dev cyclonedds-tools
mkdir -p "$out/idl"
(cd "$out/idl" && idlc -l c "$here/sample.idl")
cc -O2 -std=gnu11 -Wall -Wextra -o "$out/peer" "$here/peer.c" "$out/idl/sample.c" \
  "$here/../common/bench.c" -I "$here/../common" -I "$out/idl" -lddsc -lpthread
echo "Cyclone DDS $(package_version cyclonedds-dev)" > "$out/version"
