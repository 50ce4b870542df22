#!/usr/bin/env bash
# JGroups from Maven.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
version=5.5.2.Final
java_program "$here" "$out" "org.jgroups:jgroups:$version" -Djava.net.preferIPv4Stack=true -Xmx1g
echo "JGroups $version, Java $(java -version 2>&1 | sed -n '1s/.*"\(.*\)".*/\1/p')" > "$out/version"
