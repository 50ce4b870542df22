# Sourced by the build scripts: what they install, and how they fail with a reason in one line.

# The last line on standard error is the reason that the report gives.
fail() { echo "$1" >&2; exit 1; }

# need_packages NAME...: installs Debian packages that are missing.
need_packages() {
  local missing=()
  for package in "$@"; do
    dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
  [ ${#missing[@]} -eq 0 ] && return
  command -v apt-get >/dev/null || fail "needs the packages ${missing[*]}, and there is no apt-get"
  [ "$(id -u)" -eq 0 ] || fail "needs the packages ${missing[*]}: install them as root"
  apt-get update -qq >&2 || true
  DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq --no-install-recommends "${missing[@]}" >&2 \
    || fail "apt-get cannot install ${missing[*]}"
}

# need_programs PROGRAM:PACKAGE...: installs the package of each program that is missing.
need_programs() {
  for pair in "$@"; do
    command -v "${pair%%:*}" >/dev/null || need_packages "${pair##*:}"
  done
}

# package_version NAME: the installed version of a Debian package.
package_version() { dpkg-query -W -f='${Version}' "$1"; }

# crate_sources FOLDER NAME: fetches the crates of the manifest there; prints where NAME lies.
crate_sources() {
  cargo fetch --locked --manifest-path "$1/Cargo.toml" >&2 || fail "cargo cannot fetch $2"
  cargo metadata --locked --offline --format-version 1 --manifest-path "$1/Cargo.toml" \
    | grep -o "\"manifest_path\":\"[^\"]*/$2-[0-9][^\"]*/Cargo.toml\"" | head -1 \
    | sed 's/.*:"//; s|/Cargo.toml"||'
}

# cmake_of VERSION FOLDER: prints a CMake of at least this version, from PyPI if the system's is
# older.
cmake_of() {
  local have
  have=$(cmake --version 2>/dev/null | sed -n 's/^cmake version //p')
  if [ "$(printf '%s\n' "$1" "${have:-0}" | sort -V | head -1)" = "$1" ]; then
    echo cmake
    return
  fi
  [ -x "$2/bin/cmake" ] || python3 -m pip install -q --target "$2" "cmake>=$1,<4" >&2 \
    || fail "needs CMake $1, and pip cannot install it"
  echo "$2/bin/cmake"
}

# java_program HERE OUT COORDINATES JVM_OPTION...: compiles Bench.java and HERE/Peer.java against an
# artifact of Maven's repository, and writes OUT/peer.
java_program() {
  local here=$1 out=$2 coordinates=$3
  shift 3
  need_programs javac:default-jdk-headless mvn:maven
  mkdir -p "$out/lib" "$out/classes"
  sed "s/@GROUP@/${coordinates%%:*}/; s/@ARTIFACT@/$(cut -d: -f2 <<<"$coordinates")/; s/@VERSION@/${coordinates##*:}/" \
    "$here/../common/pom.xml.in" > "$out/pom.xml"
  mvn -B -q --color never -f "$out/pom.xml" dependency:copy-dependencies -DoutputDirectory="$out/lib" >&2 \
    || fail "maven cannot fetch $coordinates"
  javac -d "$out/classes" -cp "$out/lib/*" "$here/../common/Bench.java" "$here/Peer.java" >&2 \
    || fail "javac cannot compile $here/Peer.java"
  printf '#!/bin/sh\nexec java %s -cp "%s/classes:%s/lib/*" Peer "$@"\n' "$*" "$out" "$out" > "$out/peer"
  chmod +x "$out/peer"
}
