#!/usr/bin/env bash
# Builds Hawser and runs its tests, from nothing on Debian bookworm (as root or with sudo).
#
#   bash tests/run.sh [--full] [--asan | --tsan | --fuzz] [-- CTEST_ARGUMENT...]
#
#   (none)   release build in build/, every test but the long ones, a quarter of those that take longest
#   --asan   AddressSanitizer and UndefinedBehaviorSanitizer, with clang, in build-asan/, tests labelled quick
#   --tsan   ThreadSanitizer, with clang, in build-tsan/, tests labelled threads
#   --fuzz   the fuzzers alone, with clang and both of --asan in build-fuzz/, each for a quarter of a minute (tests/fuzz)
#   --full   alone: the long tests too, all cases, kernels for every GPU that packages have, and attention by cuDNN;
#            with a sanitizer: all cases of the sampled tests; with --fuzz: five minutes each
#
# HAWSER_WITHOUT_CCACHE in the environment does without ccache, which is faster the first time.
#
# Of tests labelled sampled a quarter of the cases runs, another quarter each day, and of the long tests of packages,
# examples and languages one of four groups. Under sanitizers it is an eighth of the cases, and of the tests over the core
# only every other one is built and run, the others the next day. HAWSER_DAY=N, days since 1970, chooses.
#
# Installs the Debian packages that the build and the tests need where they are missing, and the compiler of the CUDA
# toolkit into a folder of the user's cache (packaging/cuda_toolkit.sh). Packages of crates.io, PyPI and Maven Central go
# into the caches of their tools and into the build folder. Exits with the status of the first thing that fails. Arguments
# after -- go to ctest, such as -R golden.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(g++ clang clang-format cmake ninja-build pkg-config python3 python3-venv
          nlohmann-json3-dev libflatbuffers-dev flatbuffers-compiler libfmt-dev libxxhash-dev libcli11-dev libgtest-dev libsodium-dev libgloo-dev
          openmpi-bin iproute2 abigail-tools)

fail() { echo "tests/run.sh: $*" >&2; exit 2; }

source packaging/install_packages.sh

build=build
# All that decides what is built and tested, so that a folder that something else has configured does as well.
configure=(-DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON -DHAWSER_WERROR=ON -DHAWSER_SANITIZE= -DHAWSER_TEST_LABEL= -DHAWSER_TEST_HALF= -DHAWSER_CPU_LEVELS=)
with_clang=  # sanitized code takes it two thirds of the time of g++; g++ has no fuzzers
select=()
excluded=long
targets=()
architectures=90a-real
headers=()
fuzz_seconds=15
parts=4
# Minutes each, for what changes seldom: one group a day.
groups=('package_deb_(made|bookworm)|rust_documentation'
        'example_cpp|package_jar_(made|17)|rust_clippy'
        'python_(package|examples|service)'
        'rust_examples|layout_matrix_to_4|package_(conda_made|conda|sbom)|java_(25|check_jni|exit|lifetime|natives)_test')
configs=60
full=
while [ $# -gt 0 ]; do
  case "$1" in
    --full) full=yes ;;
    --asan)
      build=build-asan with_clang=yes select=(-L quick) parts=8 configs=12
      configure+=(-DHAWSER_SANITIZE=address+undefined -DHAWSER_TEST_LABEL=quick -DHAWSER_CPU_LEVELS=v3 -DHAWSER_JAVA=ON -DHAWSER_PYTHON=ON)
      ;;
    --tsan)
      build=build-tsan with_clang=yes select=(-L threads) parts=8 configs=12
      configure+=(-DHAWSER_SANITIZE=thread -DHAWSER_TEST_LABEL=threads -DHAWSER_CPU_LEVELS=v3)
      ;;
    --fuzz)
      build=build-fuzz with_clang=yes parts=1 targets=(--target fuzzers) select=(-L fuzz)
      configure+=(-DHAWSER_SANITIZE=fuzzer-no-link+address+undefined -DHAWSER_CPU_LEVELS=generic)
      ;;
    --) shift; break ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument $1 (see --help)" ;;
  esac
  shift
done
if [ "$full" ]; then
  architectures="80-real;90a-real;100a-real;120-virtual" headers=(--cudnn) fuzz_seconds=300 parts=1
  excluded=
fi
[ "$build" != build-fuzz ] || configure+=("-DHAWSER_FUZZ_SECONDS=$fuzz_seconds")
if [ "${HAWSER_WITHOUT_CCACHE:-}" ] || ! command -v ccache >/dev/null; then
  configure+=(-DCCACHE=)
  # g++ collects garbage from 1 GB on, which is an eighth faster.
  [ "$with_clang" ] || configure+=(-DCMAKE_CXX_FLAGS=--param=ggc-min-heapsize=1000000)
fi
if [ "$with_clang" ]; then
  packages+=(libclang-rt-14-dev)
  configure+=(-DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14)
fi
[ $# -eq 0 ] || parts=1  # who names tests wants all of them
day=${HAWSER_DAY:-$(($(date +%s) / 86400))}
part=$((day % parts))
[ "$parts" != 8 ] || configure+=(-DHAWSER_TEST_HALF=$((part % 2))) excluded="$excluded|another_day"

if [ "$build" = build ]; then
  packages+=(autopkgtest bubblewrap debhelper dh-python lintian mmdebstrap)  # tests/packaging
  packages+=(libopenmpi-dev libcpp-httplib-dev)                             # of examples
  command -v cargo >/dev/null || [ -x ~/.cargo/bin/cargo ] || packages+=(rust-web-clippy rustfmt-web)
  packages+=(bindgen)                                                       # of bindings/rust
fi
if [ "$build" = build ] || [ "$build" = build-fuzz ]; then  # the text module
  command -v cargo >/dev/null || [ -x ~/.cargo/bin/cargo ] || packages+=(cargo-web)
fi
case "$build" in build | build-asan) packages+=(python3-dev swig maven openjdk-17-jdk-headless) ;; esac  # of bindings
install_packages "${packages[@]}"
# The plugin for GPUs is compiled where its toolkit can be had; sanitizers do without.
if [ "$build" = build ]; then
  if toolkit=$(bash packaging/cuda_toolkit.sh "${headers[@]}"); then
    configure+=(-DHAWSER_CUDA=ON "-DHAWSER_CUDA_TOOLKIT=$toolkit" "-DHAWSER_CUDA_ARCHITECTURES=$architectures")
  else
    echo "tests/run.sh: no CUDA toolkit: the plugin for GPUs is neither built nor tested" >&2
    configure+=(-DHAWSER_CUDA=AUTO)
  fi
  bash packaging/text_crates.sh
  configure+=(-DHAWSER_TEXT=ON -DHAWSER_RUST=ON -DHAWSER_JAVA=ON -DHAWSER_PYTHON=ON)
fi
if [ "$build" = build-fuzz ]; then
  bash packaging/text_crates.sh
  configure+=(-DHAWSER_TEXT=ON)
fi
jobs=$(nproc)
[ -f "$build/CMakeCache.txt" ] || configure+=(-G Ninja)  # a configured folder keeps its generator
cmake -S . -B "$build" "${configure[@]}"
cmake --build "$build" --parallel "$jobs" "${targets[@]}"
trap 'python3 tests/times.py "$build" || true' EXIT
run_tests() { ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" "${select[@]}" "$@"; }
if [ "$parts" = 1 ]; then
  run_tests ${excluded:+-LE "$excluded"} "$@"
else
  status=0
  skipped=()
  if [ "$build" = build ]; then
    unset "groups[day % 4]"
    skipped=(-E "^($(IFS='|'; echo "${groups[*]}"))$")
  fi
  export HAWSER_CONFIGS=${HAWSER_CONFIGS:-$configs}  # of prove_random_test
  run_tests -LE "${excluded:+$excluded|}sampled" "${skipped[@]}" || status=1
  echo "tests/run.sh: the sample of day $day (HAWSER_DAY=$day repeats it, --full runs all)"
  GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part run_tests ${excluded:+-LE "$excluded"} -L sampled || status=1
  exit "$status"
fi
