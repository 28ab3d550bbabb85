#!/usr/bin/env bash
# generate.sh HEADER: writes the declarations of hawser.h to standard output (bindgen 0.60.1, as Debian has it).
# The output is src/bindings.rs.
set -euo pipefail
header=$(realpath "$1")
cd "$(dirname "${BASH_SOURCE[0]}")"  # where rustfmt finds its settings
bindgen "$header" --allowlist-function 'hws_.*' --allowlist-type 'hws_.*' --allowlist-var 'HWS_.*' \
  --default-macro-constant-type signed --size_t-is-usize --no-layout-tests --use-core --ctypes-prefix ::core::ffi \
  --disable-header-comment --raw-line '// Made by generate.sh from hawser.h. Do not edit.'
