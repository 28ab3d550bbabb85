#!/usr/bin/env bash
# Measures the time of a clean release build of the library with 2 jobs, and the size of the stripped library.
#
#   bash tests/bench/build_and_size.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export CCACHE_DISABLE=1
cmake -S . -B "$scratch" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF >/dev/null
SECONDS=0
cmake --build "$scratch" --parallel 2 --target hawser >/dev/null
seconds=$SECONDS
strip -o "$scratch/stripped.so" "$(realpath "$scratch/libhawser.so")"
bytes=$(stat -c %s "$scratch/stripped.so")
echo "clean build of libhawser.so, 2 jobs: $seconds s (wanted <= 240); stripped: $((bytes / 1000)) kB (wanted <= 4000)"
