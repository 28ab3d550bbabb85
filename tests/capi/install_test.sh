#!/usr/bin/env bash
# Tests cmake --install into an empty prefix, a C program built against it with pkg-config and with find_package, and
# uninstall.
#   install_test.sh BUILD_FOLDER CONSUMER.c C_COMPILER SOURCE_FOLDER
set -euo pipefail
build=$1 consumer=$2 compiler=$3 source=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/first
for component in runtime dev tools; do
  cmake --install "$build" --prefix "$prefix" --component $component >"$work/install.log"
done
mv "$prefix" "$work/moved" # the installed tree can be moved
prefix=$work/moved
libdir=$(dirname "$(find "$prefix" -name libhawser.so.0)")
for file in include/hawser.h include/hawser.hpp share/hawser/schema/config.fbs share/doc/hawser/LICENSE share/doc/hawser/examples/train.c; do
  [ -f "$prefix/$file" ] || { echo "$file is not installed"; exit 1; }
done
if find "$prefix" -name '*.a' | grep .; then echo "a static archive is installed"; exit 1; fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
"$compiler" -std=c99 -Wall -Wextra -Werror "$consumer" $(pkg-config --cflags --libs hawser) -o "$work/by-pkg-config"
LD_LIBRARY_PATH=$libdir "$work/by-pkg-config"
echo "pkg-config: version $(pkg-config --modversion hawser)"

mkdir "$work/project"
cp "$consumer" "$work/project/consumer.c"
cat >"$work/project/CMakeLists.txt" <<'EOF'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(Hawser 0.1 REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE hawser::hawser)
EOF
cmake -S "$work/project" -B "$work/project/build" -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$compiler" \
  >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
cmake --build "$work/project/build" >"$work/cmake.log" || { cat "$work/cmake.log"; exit 1; }
"$work/project/build/consumer"
echo "find_package: works"
if [ -x "$prefix/bin/hawser" ]; then
  "$prefix/bin/hawser" presets >"$work/presets"
  grep -q gpt2-124m "$work/presets"
  echo "the installed command: works"
fi

for folder in engine/device/cuda engine/comm/identity; do # a module that was not built must not make the install fail
  script=$build/$folder/cmake_install.cmake
  [ -f "$script" ] || continue
  sed "s|/hawser-0/libhawser_|/not-built/libhawser_|g" "$script" >"$work/partly.cmake"
  cmake -D CMAKE_INSTALL_PREFIX="$work/partly" -P "$work/partly.cmake" >"$work/install.log"
done

for component in runtime dev tools; do
  cmake --install "$build" --prefix "$work/second" --component $component >"$work/install.log"
done
(cd "$build" && cmake -P "$source/packaging/uninstall.cmake" >"$work/uninstall.log")
if find "$work/second" ! -type d | grep .; then echo "uninstall leaves files"; exit 1; fi
echo "uninstall: leaves nothing"
