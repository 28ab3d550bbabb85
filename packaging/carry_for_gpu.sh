#!/usr/bin/env bash
# Gathers what tests/gpu.sh needs and a machine without network may lack, in one folder: the headers, CMake packages and
# the flatc of our build's Debian packages, GoogleTest, cuDNN's headers and its frontend's (where
# packaging/cuda_toolkit.sh --cudnn put them), and the PyTorch program to compare with. Run it on Debian or
# Ubuntu (x86-64) where tests/run.sh works; the folder may then be moved to the GPU machine, whose C++ compiler must not
# be older than this one's.
#
#   packaging/carry_for_gpu.sh FOLDER [--peer torch_gpt.py]
#
#   FOLDER   is made anew; about 16 MB
#   --peer   a program that trains a GPT with PyTorch and prints one JSON line with tok_s_median (tests/gpu.sh --help)
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() { echo "carry_for_gpu.sh: $*" >&2; exit 2; }

folder="" peer=""
while [ $# -gt 0 ]; do
  case "$1" in
    --peer) [ $# -gt 1 ] || fail "--peer needs a file"; peer=$2; shift ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    -*) fail "unknown argument $1 (see --help)" ;;
    *) [ -z "$folder" ] || fail "one folder, not also $1"; folder=$1 ;;
  esac
  shift
done
[ -n "$folder" ] || fail "which folder? (see --help)"
[ -z "$peer" ] || [ -f "$peer" ] || fail "--peer $peer: no such file"
command -v dpkg-query >/dev/null || fail "this needs dpkg: run it on Debian or Ubuntu"

packages=(nlohmann-json3-dev libflatbuffers-dev flatbuffers-compiler libfmt-dev libxxhash-dev libcli11-dev libgtest-dev)
source "$root/packaging/install_packages.sh"
install_packages "${packages[@]}"
# The CMake packages check that their shared libraries are there too.
libraries=$(dpkg-query --showformat='${Depends}\n' --show "${packages[@]}" | grep -oE 'lib(fmt|xxhash|flatbuffers)[0-9]+' |
            sort -u || true)

rm -rf "$folder.new"
mkdir -p "$folder.new"
# shellcheck disable=SC2086  # package names are words
for package in "${packages[@]}" $libraries; do
  dpkg -L "$package" | grep -E '^/usr/(include|lib|share/(cmake|pkgconfig)|src|bin/flatc)' | while read -r file; do
    if [ ! -d "$file" ] || [ -L "$file" ]; then printf '%s\0' "${file#/}"; fi
  done
done | tar -C / --null --no-recursion -cf - -T - | tar -C "$folder.new" -xf -
headers=$(bash "$root/packaging/cuda_toolkit.sh" --fetch)/cudnn
if [ -e "$headers/include/cudnn_frontend.h" ]; then
  cp -r "$headers" "$folder.new/cudnn"
else
  echo "carry_for_gpu.sh: cuDNN's headers are not here (packaging/cuda_toolkit.sh --cudnn): attention will be our own" >&2
fi
[ -z "$peer" ] || cp "$peer" "$folder.new/torch_gpt.py"

most=$((64 << 20))
bytes=$(du -sb "$folder.new" | cut -f1)
[ "$bytes" -le "$most" ] || fail "$bytes bytes are more than the $most that may travel; left in $folder.new"
rm -rf "$folder"
mv "$folder.new" "$folder"
echo "$folder: $((bytes >> 10)) KiB"
