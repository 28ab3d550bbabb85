#!/usr/bin/env bash
# Fetches the crates of the text module (engine/text/module/Cargo.lock) into cargo's own cache, so that the build needs
# no network. Does nothing if the cache has them already.
#
#   bash packaging/text_crates.sh [PROCESSOR]    PROCESSOR: aarch64 also installs Rust's standard library for it, by rustup
#                                                or from Debian (as root or with sudo)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../engine/text/module"
PATH=$PATH:${HOME:-/root}/.cargo/bin
command -v cargo >/dev/null || { echo "text_crates.sh: cargo is not here (Debian: cargo-web)" >&2; exit 2; }
processor=${1:-$(uname -m)} target=$processor-unknown-linux-gnu
if [ "$processor" != "$(uname -m)" ] && [ ! -d "$(rustc --print target-libdir --target "$target")" ]; then
  if command -v rustup >/dev/null; then
    rustup --quiet target add "$target"
  else
    source ../../../packaging/install_packages.sh
    install_packages libstd-rust-web-dev:arm64
  fi
fi
cargo metadata --offline --locked --format-version 1 >/dev/null 2>&1 || cargo fetch --locked
