#!/usr/bin/env bash
# Aeron's C media driver and client. No distribution packages them; the crate that binds them to
# Rust carries their sources, so cargo fetches it and CMake builds what is inside.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
need_programs g++:g++ make:make cargo:cargo python3:python3-pip
need_packages uuid-dev libbsd-dev
cmake=$(cmake_of 3.30 "$out/cmake")
export PYTHONPATH="$out/cmake"
crate=$(crate_sources "$here/fetch" rusteron-media-driver)
"$cmake" -S "$crate/aeron" -B "$out/aeron" -DCMAKE_BUILD_TYPE=Release \
  -DAERON_TESTS=OFF -DAERON_UNIT_TESTS=OFF -DAERON_SYSTEM_TESTS=OFF -DAERON_BUILD_SAMPLES=OFF \
  -DBUILD_AERON_ARCHIVE_API=OFF -DAERON_BUILD_DOCUMENTATION=OFF -DAERON_INSTALL_TARGETS=OFF
"$cmake" --build "$out/aeron" --target aeron_driver_static -j "$(nproc)"
cc -O2 -std=gnu11 -Wall -Wextra -o "$out/peer" "$here/peer.c" "$here/../common/bench.c" \
  -I "$here/../common" -I "$crate/aeron/aeron-driver/src/main/c" -I "$crate/aeron/aeron-client/src/main/c" \
  "$out/aeron/lib/libaeron_driver_static.a" -lbsd -luuid -lm -ldl -lpthread
echo "Aeron $(cat "$crate/aeron/version.txt"), C driver and client" > "$out/version"
