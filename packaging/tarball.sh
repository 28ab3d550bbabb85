#!/usr/bin/env bash
# Makes one archive of headers, libraries, command, pkg-config file and CMake package, with CPack.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/portable_build.sh"

portable_build
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cpack -G TGZ --config "$build/CPackConfig.cmake" -B "$work" >"$work/log" || { cat "$work/log"; exit 1; }
mv "$work"/hawser-*.tar.gz "$dist"
echo "$dist/hawser-$version-linux-$processor.tar.gz"
