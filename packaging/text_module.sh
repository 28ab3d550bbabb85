#!/usr/bin/env bash
# Builds the text module, libhawser_text.so, in a source tree: tokenizers, chat templates and Parquet. Installs cargo
# (Debian: cargo-web, as root or with sudo) if it is missing, fetches the module's crates from crates.io, and builds in
# FOLDER, which the library of the same folder then finds.
#
#   bash packaging/text_module.sh [FOLDER]       FOLDER: build/ if not given; configured first if it is new
set -euo pipefail
build=$(realpath -m "${1:-"$(dirname "${BASH_SOURCE[0]}")/../build"}")
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source packaging/install_packages.sh
command -v cargo >/dev/null || [ -x "${HOME:-/root}/.cargo/bin/cargo" ] || install_packages cargo-web
bash packaging/text_crates.sh
new=(-G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF)
[ ! -f "$build/CMakeCache.txt" ] || new=()
cmake -S . -B "$build" ${new[@]+"${new[@]}"} -DHAWSER_TEXT=ON
cmake --build "$build" --target hawser_text
