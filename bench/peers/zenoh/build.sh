#!/usr/bin/env bash
# Zenoh from crates.io.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
need_programs cargo:cargo cc:gcc
cargo build --locked --release --manifest-path "$here/Cargo.toml" --target-dir "$out/target" >&2 \
  || fail "cargo cannot build zenoh"
cp "$out/target/release/peer" "$out/peer"
version=$(sed -n '/^name = "zenoh"$/{n;s/version = "\(.*\)"/\1/p}' "$here/Cargo.lock")
echo "Zenoh $version" > "$out/version"
