#!/usr/bin/env bash
# Fetches the crates of the text module (engine/text/module/Cargo.lock) into cargo's own cache, so that the build needs
# no network. Does nothing if the cache has them already.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../engine/text/module"
PATH=$PATH:${HOME:-/root}/.cargo/bin
command -v cargo >/dev/null || { echo "text_crates.sh: cargo is not here (Debian: cargo-web)" >&2; exit 2; }
cargo metadata --offline --locked --format-version 1 >/dev/null 2>&1 || cargo fetch --locked
