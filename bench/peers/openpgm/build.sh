#!/usr/bin/env bash
# OpenPGM from Debian.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
need_programs cc:gcc pkg-config:pkg-config
need_packages libpgm-dev
# shellcheck disable=SC2046
cc -O2 -std=gnu11 -Wall -Wextra -o "$out/peer" "$here/peer.c" "$here/../common/bench.c" \
  -I "$here/../common" $(pkg-config --cflags openpgm-5.3) $(pkg-config --libs openpgm-5.3)
echo "OpenPGM $(package_version libpgm-dev)" > "$out/version"
