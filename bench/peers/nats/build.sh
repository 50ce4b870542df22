#!/usr/bin/env bash
# NATS, server and client, as Go modules.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
out=$1
source "$here/../common/install.sh"
need_programs go:golang-go
(cd "$here" && go build -mod=readonly -o "$out/peer" .) >&2 || fail "go cannot build the NATS program"
module() { sed -n "s|.*github.com/nats-io/$1 v||p" "$here/go.mod" | head -1; }
echo "NATS server $(module nats-server/v2), client $(module nats.go)" > "$out/version"
