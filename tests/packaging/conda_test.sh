#!/usr/bin/env bash
# Tests the conda packages: solves and installs them from the local channel, without network if it can be disabled, runs
# the
# command, and builds and runs a C program in the prefix.
#   conda_test.sh DIST SOURCE_FOLDER TOOLS_FOLDER
set -euo pipefail
export HAWSER_DIST=$1
source=$2
source "$source/packaging/portable_build.sh"
python_tools "$3"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

alone=()
if bwrap --dev-bind / / --unshare-net true 2>/dev/null; then alone=(bwrap --dev-bind / / --unshare-net); else echo "with network"; fi
"${alone[@]}" "$tools/python" "$source/tests/packaging/conda_install.py" "$dist/conda" linux-64 "$prefix" libhawser-dev libhawser-text hawser
for record in libhawser libhawser-text libhawser-dev hawser; do
  compgen -G "$prefix/conda-meta/$record-$version-*.json" >/dev/null || fail "$record is not installed"
done
"$prefix/bin/hawser" presets | grep gpt2-124m >/dev/null || fail "the command does not run"
[ -s "$prefix/share/man/man1/hawser-train.1" ] || fail "no manual pages"
if find "$prefix" -type f -exec grep -l "placehold_placehold" {} + | grep .; then fail "a file with the build's prefix"; fi
[ -s "$prefix/share/doc/hawser/THIRD_PARTY.txt" ] || fail "no licences"

export PKG_CONFIG_PATH=$prefix/lib/pkgconfig
cc "$prefix/share/doc/hawser/examples/train.c" $(pkg-config --cflags --libs hawser) -Wl,-rpath,"$prefix/lib" -o "$work/train"
"$work/train" | tail -1
