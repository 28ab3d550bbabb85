#!/usr/bin/env bash
# Packages the crates hawser-train-sys and hawser-train, and builds each from its package.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/portable_build.sh"

PATH=$PATH:${HOME:-/root}/.cargo/bin
command -v cargo >/dev/null || fail "cargo is not here (Debian: cargo-web, or a toolchain of rustup)"
portable_build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
copy_source "$work/tree"
for crate in hawser-sys hawser; do # cargo packages only files in the crate's own folder
  cp "$root/LICENSE" "$work/tree/bindings/rust/$crate"
done
cd "$work/tree/bindings/rust"
HAWSER_LIB_DIR=$(cd "$build" && pwd) LD_LIBRARY_PATH=$build \
  cargo package --quiet --workspace --locked --target-dir "$work/target"
rm -rf "$dist/crates"
mkdir "$dist/crates"
cp "$work"/target/package/*.crate "$dist/crates"
ls "$dist"/crates/*.crate
