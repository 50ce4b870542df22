#!/usr/bin/env bash
# Fast DDS from Debian.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
need_programs cc:gcc c++:g++
need_packages libfastrtps-dev libfastcdr-dev fastddsgen
mkdir -p "$out/idl"
fastddsgen -replace -d "$out/idl" "$here/Sample.idl" >&2 || fail "fastddsgen cannot read Sample.idl"
cc -O2 -std=gnu11 -Wall -Wextra -c -o "$out/bench.o" "$here/../common/bench.c"
c++ -O2 -std=gnu++20 -Wall -o "$out/peer" "$here/peer.cpp" "$out"/idl/Sample.cxx \
  "$out"/idl/SamplePubSubTypes.cxx "$out/bench.o" -I "$here/../common" -I "$out/idl" \
  -lfastrtps -lfastcdr -lpthread
echo "Fast DDS $(package_version libfastrtps-dev)" > "$out/version"
