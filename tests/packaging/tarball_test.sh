#!/usr/bin/env bash
# Tests the tarball as a user would: unpacks and moves it, and builds a C and a C++ project against it, with CMake and
# with
# pkg-config.
#   tarball_test.sh DIST SOURCE_FOLDER
set -euo pipefail
source=$2
tarball=$(ls "$1"/hawser-*-linux-*.tar.gz)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "tarball_test.sh: $*" >&2; exit 1; }

mkdir "$work/unpacked"
tar -C "$work/unpacked" -xf "$tarball"
[ "$(ls "$work/unpacked")" = "$(basename "$tarball" .tar.gz)" ] || fail "it has not one folder of its own name"
mkdir "$work/else where" # the path contains a blank, like some home folders
mv "$work"/unpacked/* "$work/else where/hawser"
prefix="$work/else where/hawser"
for file in LICENSE THIRD_PARTY.txt THIRD_PARTY_TEXT.txt hawser.spdx.json hawser-text.spdx.json README.md examples/train.c \
  examples/trust.md; do
  [ -s "$prefix/share/doc/hawser/$file" ] || fail "$file is not in it"
done
for file in man/man1/hawser.1 man/man1/hawser-tokenizer-train.1 bash-completion/completions/hawser \
  zsh/site-functions/_hawser fish/vendor_completions.d/hawser.fish; do
  [ -s "$prefix/share/$file" ] || fail "share/$file is not in it"
done
(cd "$source" && find examples -name '*.c' -o -name '*.cc' -o -name '*.h') | while read -r file; do
  cmp "$source/$file" "$prefix/share/doc/hawser/$file" || fail "$file is not in it"
done
[ -s "$prefix/lib/hawser-0/libhawser_text.so" ] || fail "no text module in it"
if strings "$prefix"/lib/*.so "$prefix/bin/hawser" | grep -F "$source"; then fail "a path of the machine that built it"; fi

mkdir "$work/project"
cp "$source/tests/capi/consumer.c" "$work/project"
cat >"$work/project/consumer.cc" <<'CXX'
#include <hawser.hpp>

int main() {
  try {
    hawser::Config::parse("{\"model\": ");
  } catch (const hawser::Error& error) {
    return hawser::Config::preset("gpt2-124m").serialize().empty() ? 2 : 0;
  }
  return 1;
}
CXX
cat >"$work/project/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(consumers LANGUAGES C CXX)
set(CMAKE_CXX_STANDARD 20)
find_package(Hawser 0.1 REQUIRED)
add_executable(by_c consumer.c)
target_link_libraries(by_c PRIVATE hawser::hawser)
add_executable(by_cxx consumer.cc)
target_link_libraries(by_cxx PRIVATE hawser::hawser)
CMAKE
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$prefix" >"$work/log" || { cat "$work/log"; exit 1; }
cmake --build "$work/project/build" >"$work/log" || { cat "$work/log"; exit 1; }
"$work/project/build/by_c" && "$work/project/build/by_cxx"
echo "CMake: a C and a C++ project"

export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
flags() { eval "arguments=($(pkg-config --cflags --libs hawser))"; }
flags
cc -std=c99 -Wall -Wextra -Werror "$work/project/consumer.c" "${arguments[@]}" -o "$work/c"
c++ -std=c++20 -Wall -Wextra -Werror "$work/project/consumer.cc" "${arguments[@]}" -o "$work/cxx"
LD_LIBRARY_PATH="$prefix/lib" "$work/c" && LD_LIBRARY_PATH="$prefix/lib" "$work/cxx"
echo "pkg-config: a C and a C++ program, version $(pkg-config --modversion hawser)"

cc -std=c99 "$prefix/share/doc/hawser/examples/train.c" "${arguments[@]}" -Wl,-rpath,"$prefix/lib" -o "$work/train"
"$work/train" | tail -1
# The service is installed whole: it compiles from the installed files alone.
if pkg-config --exists 'cpp-httplib >= 0.11 cpp-httplib < 0.12' && [ -e /usr/include/nlohmann/json.hpp ]; then
  eval "cflags=($(pkg-config --cflags hawser))"
  c++ -std=c++20 -fsyntax-only "${cflags[@]}" "$prefix"/share/doc/hawser/examples/service/*.cc ||
    fail "the service does not compile"
  echo "examples/service: compiles"
fi
"$prefix/bin/hawser" --version >"$work/version"
cat "$work/version"
for line in "hawser $(pkg-config --modversion hawser)" "commit: [0-9a-z]*" "CPU level: .*" "modules: text,.*"; do
  grep -qx "$line" "$work/version" || fail "--version does not print \"$line\""
done
