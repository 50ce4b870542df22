#!/usr/bin/env bash
# A relay of Media over QUIC and a program that uses it, both from crates.io, for part f of `make sites`.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
version=0.17.10
source "$here/../common/install.sh"
need_programs cargo:cargo cc:gcc
export CARGO_TARGET_DIR="$out/target"
# Not with the lock file that it brings: of what it names not all is to be had from every registry.
cargo install --quiet --root "$out/relay" --no-default-features --features noq "moq-relay@$version" >&2 \
  || fail "cargo cannot build moq-relay"
cargo build --locked --release --manifest-path "$here/Cargo.toml" >&2 || fail "cargo cannot build moq-copies"
cp "$out/relay/bin/moq-relay" "$out/target/release/moq-copies" "$out/"
echo "moq-relay $version" > "$out/version"
