#!/usr/bin/env bash
# NORM from Debian.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
need_programs cc:gcc g++:g++
need_packages libnorm-dev
cc -O2 -std=gnu11 -Wall -Wextra -c -o "$out/bench.o" "$here/../common/bench.c"
c++ -O2 -std=gnu++20 -Wall -Wextra -o "$out/peer" "$here/peer.cpp" "$out/bench.o" \
  -I "$here/../common" -lnorm -lpthread
echo "NORM $(package_version libnorm-dev)" > "$out/version"
