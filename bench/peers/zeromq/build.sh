#!/usr/bin/env bash
# ZeroMQ from Debian, which builds it with OpenPGM.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
need_programs cc:gcc
need_packages libzmq3-dev
cc -O2 -std=gnu11 -Wall -Wextra -o "$out/peer" "$here/peer.c" "$here/../common/bench.c" \
  -I "$here/../common" -lzmq -lpthread
echo "libzmq $(package_version libzmq3-dev)" > "$out/version"
