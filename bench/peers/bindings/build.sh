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
  javac --release 17 -d "$out/classes" "$here/Receive.java" $(find "$root/crates/qsm-java/java/src/main/java" -name '*.java')
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
