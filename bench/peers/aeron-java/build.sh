#!/usr/bin/env bash
# Aeron's Java driver and client from Maven.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
version=1.51.0
java_program "$here" "$out" "io.aeron:aeron-driver:$version" \
  --add-opens java.base/jdk.internal.misc=ALL-UNNAMED --add-opens java.base/sun.nio.ch=ALL-UNNAMED \
  -Dagrona.disable.bounds.checks=true -XX:+UseParallelGC -Xshare:auto
echo "Aeron $version, Java driver and client, Java $(java -version 2>&1 | sed -n '1s/.*"\(.*\)".*/\1/p')" > "$out/version"
