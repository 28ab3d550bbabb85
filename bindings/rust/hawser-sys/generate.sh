#!/usr/bin/env bash
# generate.sh HEADER: writes the declarations of hawser.h to standard output, with Debian's bindgen 0.60.1. The output
# belongs in src/bindings.rs.
set -euo pipefail
header=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"  # rustfmt finds its settings here
bindgen "$header" --allowlist-function 'hws_.*' --allowlist-type 'hws_.*' --allowlist-var 'HWS_.*' \
  --default-macro-constant-type signed --size_t-is-usize --no-layout-tests --use-core --ctypes-prefix ::core::ffi \
  --disable-header-comment --raw-line '// Made by generate.sh from hawser.h. Do not edit.'
