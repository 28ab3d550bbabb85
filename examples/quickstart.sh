#!/usr/bin/env bash
# Builds Hawser from a fresh clone in release mode, trains a small byte-level GPT on text (by default the text of this
# repository), writes checkpoints and a report, and generates a sample.
#
#   bash examples/quickstart.sh [--data FILE] [any other argument of `hawser train`]
#
# The build is in build/, and each run has a new folder out/quickstart-N. The script installs missing Debian packages
# that it needs, as root or with sudo, and nothing else. A second run rebuilds nothing.
set -euo pipefail
start_folder=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ cmake ninja-build nlohmann-json3-dev libflatbuffers-dev flatbuffers-compiler libfmt-dev libxxhash-dev
          libcli11-dev)

fail() { echo "examples/quickstart.sh: $*" >&2; exit 2; }

source packaging/install_packages.sh

# Writes the repository's text files to one file, in a fixed order that is not alphabetical, so that the last tenth,
# which is used for validation, contains every kind of file.
gather_text() {
  find capi engine kernels bindings examples tests packaging README.md -type f -size -200k \
    \( -name '*.h' -o -name '*.c' -o -name '*.cc' -o -name '*.md' -o -name '*.fbs' -o -name '*.sh' -o -name '*.py' \
    -o -name 'CMakeLists.txt' -o -name '*.cmake' -o -path '*/presets/*.json' \) -print |
    LC_ALL=C sort | LC_ALL=C sort -R --random-source=<(yes hawser) | tr '\n' '\0' | xargs -0 cat
}

data=""
arguments=()
while [ $# -gt 0 ]; do
  case "$1" in
    --data) [ $# -gt 1 ] || fail "--data needs a file"; data=$2; shift 2 ;;
    --data=*) data=${1#--data=}; shift ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) arguments+=("$1"); shift ;;
  esac
done
if [ -n "$data" ]; then
  case "$data" in /*) ;; *) data=$start_folder/$data ;; esac
  [ -f "$data" ] || fail "--data $data: no such file"
fi

install_packages "${packages[@]}"
if [ ! -f build/CMakeCache.txt ]; then
  cmake -S . -B build -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF
fi
cmake --build build --target hawser hawser_cli

if [ -z "$data" ]; then
  data=build/quickstart-data.txt
  gather_text >"$data.new"
  mv "$data.new" "$data"
fi
n=1
while [ -e "out/quickstart-$n" ]; do n=$((n + 1)); done
out=out/quickstart-$n

build/hawser train quickstart --data "$data" --out "$out" ${arguments[@]+"${arguments[@]}"}

echo
echo "A sample of the trained model:"
echo "------------------------------------------------------------"
build/hawser generate "$out" --prompt $'\n' --max-tokens 300 --temperature 0.8 --seed 1
echo "------------------------------------------------------------"
echo "picture of the run   $out/report.html"
echo "checkpoint           $(ls -d "$out"/checkpoints/step-* | sort -V | tail -n 1)"
echo "more text            build/hawser generate $out --prompt 'int main'"
