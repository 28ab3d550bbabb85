#!/usr/bin/env bash
# Gathers everything that tests/gpu.sh needs on a machine with a GPU and without a network into one folder.
# The folder contains the programs, built on this machine. For a GPU machine on which they do not run, it also contains
# everything for building them there: headers, CMake packages and flatc from this machine's Debian packages, GoogleTest,
# and cuDNN's headers. Run this script on a Debian or Ubuntu machine (x86-64) on which tests/run.sh works. The GPU
# machine's C++ compiler and C library must not be older than this machine's.
#
#   packaging/carry_for_gpu.sh FOLDER [--peer torch_gpt.py] [--build FOLDER] [--architectures LIST] [--no-programs]
#
#   FOLDER           the output folder, at most 64 MiB; an existing folder is replaced
#   --peer           a program that trains a GPT with PyTorch and prints one JSON line with tok_s_median
#                    (tests/gpu.sh --help)
#   --build          the folder in which the programs are built (default: build-gpu)
#   --architectures  the architectures of the GPUs (default: 90a-real, which is Hopper)
#   --no-programs    leaves the programs out
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

fail() { echo "carry_for_gpu.sh: $*" >&2; exit 2; }

folder="" peer="" build=$root/build-gpu architectures=90a-real programs=yes
while [ $# -gt 0 ]; do
  case "$1" in
    --peer | --build | --architectures)
      [ $# -gt 1 ] || fail "$1 needs a value"
      printf -v "${1#--}" %s "$2"
      shift ;;
    --no-programs) programs=no ;;
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
toolkit=$(bash "$root/packaging/cuda_toolkit.sh" --fetch --cudnn)

rm -rf "$folder.new"
mkdir -p "$folder.new"
# shellcheck disable=SC2086  # $libraries is split into package names on purpose
for package in "${packages[@]}" $libraries; do
  dpkg -L "$package" | grep -E '^/usr/(include|lib|share/(cmake|pkgconfig)|src|bin/flatc)' | while read -r file; do
    if [ ! -d "$file" ] || [ -L "$file" ]; then printf '%s\0' "${file#/}"; fi
  done
done | tar -C / --null --no-recursion -cf - -T - | tar -C "$folder.new" -xf -
cp -r "$toolkit/cudnn" "$folder.new/cudnn"
[ -z "$peer" ] || cp "$peer" "$folder.new/torch_gpt.py"

# Copies the programs into one flat folder, stripped, with the shared libraries that another system may lack.
carry_programs() {
  local names=(device_cuda_plugin_test device_cuda_test device_cuda_op_cases_test device_cuda_train_test golden_check
               bench_gpu_kernels bench_gpu_training)
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DHAWSER_CUDA=ON "-DHAWSER_CUDA_TOOLKIT=$toolkit" \
        "-DHAWSER_CUDA_ARCHITECTURES=$architectures" -DHAWSER_WERROR=OFF >&2
  cmake --build "$build" --parallel "$(nproc)" --target hawser hawser_cuda "${names[@]}" >&2
  local into=$1 name
  mkdir -p "$into/hawser-0" "$into/libraries"
  for name in "${names[@]}"; do cp "$(find "$build" -name "$name" -type f -perm -u+x | head -1)" "$into/"; done
  cp "$build"/libhawser.so.0 "$into/"
  cp "$build"/hawser-0/libhawser_cuda.so "$into/hawser-0/"
  strip --strip-unneeded "$into"/*_test "$into"/bench_* "$into/golden_check" "$into"/libhawser.so.0
  ldd "$into"/*_test "$into/golden_check" "$into/libhawser.so.0" | grep -oE '/\S*/lib(fmt|xxhash|flatbuffers|gtest)\S*' | sort -u |
    xargs -r cp -L -t "$into/libraries" || true  # grep finds nothing if they are linked statically
}
if [ "$programs" = yes ]; then
  carry_programs "$folder.new/programs"
  tar -C "$folder.new/programs" -czf "$folder.new/programs.tgz" .
  rm -r "$folder.new/programs"
fi

most=$((64 << 20))
bytes=$(du -sb "$folder.new" | cut -f1)
[ "$bytes" -le "$most" ] || fail "$bytes bytes are more than the $most that may travel; left in $folder.new"
rm -rf "$folder"
mv "$folder.new" "$folder"
echo "$folder: $((bytes >> 10)) KiB"
