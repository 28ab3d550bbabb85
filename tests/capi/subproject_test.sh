#!/usr/bin/env bash
# Tests Hawser as part of another project, with add_subdirectory and with FetchContent. It must configure and define
# hawser::hawser, but none of its own tests, commands or install rules, and it must not search for a CUDA toolkit, unless
# HAWSER_CUDA asks for one. It is not compiled here, because the other tests compile the same files.
#   subproject_test.sh SOURCE_FOLDER CONSUMER.c
set -euo pipefail
source=$1 consumer=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A compiler that only notes that it was called stands where the user's cache would have a toolkit, and in the path.
nvcc=$work/cache/hawser/cuda-13.0.88/bin/nvcc
mkdir -p "$(dirname "$nvcc")"
printf '#!/bin/sh\ntouch "%s"\nexit 1\n' "$work/called" >"$nvcc"
chmod +x "$nvcc"
export XDG_CACHE_HOME=$work/cache PATH=$(dirname "$nvcc"):$PATH

try() { # NAME, CMake lines that bring Hawser
  mkdir "$work/$1"
  cp "$consumer" "$work/$1/consumer.c"
  {
    echo 'cmake_minimum_required(VERSION 3.25)'
    echo 'project(outer LANGUAGES C CXX)'
    echo "$2"
    echo 'add_executable(consumer consumer.c)'
    echo 'target_link_libraries(consumer PRIVATE hawser::hawser)'
  } >"$work/$1/CMakeLists.txt"
  cmake -G Ninja -S "$work/$1" -B "$work/$1/build" -DHAWSER_CPU_LEVELS=generic >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
  ninja -C "$work/$1/build" -t targets all >"$work/targets"
  ninja -C "$work/$1/build" -t commands consumer >"$work/commands"
  grep -q 'libhawser\.so' "$work/commands" || { echo "$1: consumer does not build the library"; exit 1; }
  if grep -E 'hawser_cli|example_train|_test:' "$work/targets"; then echo "$1: builds more than the library"; exit 1; fi
  if [ -e "$work/$1/build/install_manifest.txt" ] || grep -q hawser.pc "$work/$1/build/cmake_install.cmake"; then
    echo "$1: installs Hawser without being asked"; exit 1
  fi
  if [ -e "$work/called" ] || grep '^CMAKE_CUDA_COMPILER' "$work/$1/build/CMakeCache.txt"; then
    echo "$1: configures CUDA without being asked"; exit 1
  fi
  echo "$1: configures"
}

try add_subdirectory "add_subdirectory($source hawser)"
try FetchContent "include(FetchContent)
FetchContent_Declare(hawser SOURCE_DIR $source)
FetchContent_MakeAvailable(hawser)"

if cmake -G Ninja -S "$work/FetchContent" -B "$work/asked" -DHAWSER_CUDA=ON -DHAWSER_CPU_LEVELS=generic >"$work/log" 2>&1 ||
  [ ! -e "$work/called" ]; then
  echo "HAWSER_CUDA=ON searches for no toolkit: $(cat "$work/log")"; exit 1
fi
