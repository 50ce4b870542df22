#!/usr/bin/env bash
# Receivers in each language, for `make figures-bindings` and `make figures-runtime`.
#   build.sh LIBRARIES OUT [c|java|python|zeromq]...
# LIBRARIES is the folder that Cargo has built the libraries in; without names all are built. QSM_PYTHON is an
# interpreter with numpy; pyzmq is installed beside it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
libraries=$(cd "$1" && pwd)
out=$2
shift 2
wanted=" ${*:-c java python zeromq} "
wants() { [[ "$wanted" == *" $1 "* ]]; }
source "$here/../common/install.sh"
mkdir -p "$out"

if wants c; then
  need_programs cc:gcc
  ln -sf "$libraries/libqsm_capi.so" "$out/libqsm.so.2"
  cc -O2 -std=gnu11 -Wall -Wextra -o "$out/receive-c" "$here/receive.c" -I "$root/crates/qsm-capi/include" \
    "$out/libqsm.so.2" -Wl,-rpath,"$out"
fi

if wants java; then
  need_programs javac:default-jdk-headless
  mkdir -p "$out/classes"
  ln -sf "$libraries/libqsm_java.so" "$out/libqsm_java.so"
  # Names of sources have no spaces.
  sources="$root/crates/qsm-java/java/src/main"
  javac --release 17 -d "$out/classes" "$here/Receive.java" $(find "$sources/java" -name '*.java')
  # By foreign functions, where there is a JDK that has them: in front of the others on the class path.
  rm -rf "$out/java22" "$out/classes22"
  for jdk in "${QSM_JDK:-}" "${JAVA_HOME:-}" /usr/lib/jvm/*; do
    major=$(sed -n 's/^JAVA_VERSION="\([0-9]*\).*/\1/p' "$jdk/release" 2>/dev/null || true)
    if [ "${major:-0}" -ge 22 ] && [ -x "$jdk/bin/javac" ]; then
      ln -sfn "$jdk" "$out/java22"
      "$jdk/bin/javac" --release 22 -Xlint:-restricted -d "$out/classes22" -cp "$out/classes" $(find "$sources/java22" -name '*.java')
      break
    fi
  done
fi

if wants python; then
  mkdir -p "$out/qsm"
  cp "$root"/crates/qsm-python/python/qsm/*.py "$out/qsm"
  ln -sf "$libraries/libqsm_python.so" "$out/qsm/_native.abi3.so"
fi

if wants zeromq; then
  need_programs cc:gcc
  need_packages libzmq3-dev
  cc -O2 -std=gnu11 -Wall -Wextra -o "$out/send-zeromq" "$here/send_zeromq.c" -lzmq
  "$QSM_PYTHON" -m pip install -q --disable-pip-version-check pyzmq
fi
