#!/usr/bin/env bash
# Builds Hawser and runs its tests, from nothing on Debian bookworm (as root or with sudo).
#
#   bash tests/run.sh [--all | --rest | --full | --asan | --tsan | --fuzz | --arm] [-- CTEST_ARGUMENT...]
#
#   (none)   the core: builds the library and the command in build/, and runs the tests labelled core: reference cases,
#            layouts of every strategy against one rank, resume, the C API, bad input, the command
#   --all    builds everything in build/ (every language, the text module, the plugin for GPUs, packages), and runs every
#            test except the long ones. Also cross-compiles the CPU kernels for 64-bit Arm in build-arm-kernels/, and runs
#            most of their tests under qemu-user
#   --rest   the same without the tests labelled core, which a run without an option has just run
#   --full   as --all, with the long tests, kernels for every GPU that packages support, and attention by cuDNN
#   --asan   AddressSanitizer and UndefinedBehaviorSanitizer, with clang, in build-asan/, tests labelled quick
#   --tsan   ThreadSanitizer, with clang, in build-tsan/, tests labelled threads
#   --fuzz   the fuzzers (tests/fuzz), with clang and both sanitizers of --asan, in build-fuzz/, 15 seconds each
#   --arm    cross-compiles the CPU build for 64-bit Arm in build-arm/ (packaging/aarch64.cmake), and runs the tests labelled
#            arm under qemu-user: kernels, reference cases on one rank and in layouts, a matrix of layouts, the C API, and the
#            packages, with the wheel only if --full is given too. .ci/run does not run it: compiling the engine for Arm takes
#            eight minutes of processor time
#
# With --full, --asan and --tsan run all cases, and --fuzz runs five minutes each.
#
# Sanitizers are slow: of the tests labelled sampled, --asan and --tsan run an eighth of the cases, another eighth each
# day. Of the longest tests (sampled_everywhere in tests/CMakeLists.txt), --all runs a quarter of the cases. HAWSER_DAY=N
# (days since 1970) chooses the sample.
#
# ccache is used if it is installed. HAWSER_WITHOUT_CCACHE in the environment builds without it, which is faster if
# everything is compiled once.
#
# Installs the Debian packages that are missing. --all also installs the compiler of the CUDA toolkit into a folder of the
# user's cache (packaging/cuda_toolkit.sh), and fetches packages of crates.io, PyPI and Maven Central. Exits with the
# status of the first failure. Arguments after -- go to ctest, such as -R golden.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { echo "tests/run.sh: $*" >&2; exit 2; }

source packaging/install_packages.sh

suite=core full= rest=
while [ $# -gt 0 ]; do
  case "$1" in
    --all | --asan | --tsan | --fuzz | --arm) suite=${1#--} ;;
    --rest) suite=all rest=yes ;;
    --full) full=yes ;;
    --) shift; break ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument $1 (see --help)" ;;
  esac
  shift
done
[ "$suite" != core ] || [ -z "$full" ] || suite=all

packages=(g++ cmake ninja-build pkg-config python3 nlohmann-json3-dev libflatbuffers-dev flatbuffers-compiler libfmt-dev
          libxxhash-dev libcli11-dev libgtest-dev libsodium-dev)
crates=(cargo-web) rust=(rust-web-clippy rustfmt-web)
if command -v cargo >/dev/null || [ -x ~/.cargo/bin/cargo ]; then crates=() rust=(); fi
bindings=(python3-venv python3-dev swig maven openjdk-17-jdk-headless)
examples=(libopenmpi-dev openmpi-bin libcpp-httplib-dev)
tools=(clang clang-format bindgen libgloo-dev iproute2 abigail-tools autopkgtest bubblewrap debhelper dh-python lintian
       mmdebstrap)
sanitizers=(clang libclang-rt-14-dev)

# Sets every option that affects what is built and tested, so that a folder configured differently is reused correctly.
configure=(-DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=ON -DHAWSER_WERROR=ON)
plain=(-DHAWSER_SANITIZE= -DHAWSER_TEST_LABEL= -DHAWSER_CPU_LEVELS=)
clang=(-DCMAKE_C_COMPILER=clang-14 -DCMAKE_CXX_COMPILER=clang++-14)  # sanitized by it, code runs in two thirds of the time
build=build
targets=()      # of the build; none: all
select=()       # of ctest
leave_out=long  # labels, as a regular expression
parts=1         # the sampled tests run one of so many parts
case "$suite" in
  core)
    configure+=("${plain[@]}") targets=(--target hawser hawser_cli core_tests) select=(-L core)
    ;;
  all)
    packages+=("${crates[@]}" "${rust[@]}" "${bindings[@]}" "${examples[@]}" "${tools[@]}") parts=4
    configure+=("${plain[@]}" -DHAWSER_TEXT=ON -DHAWSER_RUST=ON -DHAWSER_JAVA=ON -DHAWSER_PYTHON=ON)
    architectures=90a-real headers=()
    [ -z "$full" ] || architectures="80-real;90a-real;100a-real;120-virtual" headers=(--cudnn)
    ;;
  asan)
    build=build-asan packages+=("${sanitizers[@]}" "${bindings[@]}") select=(-L quick) parts=8
    configure+=("${clang[@]}" -DHAWSER_SANITIZE=address+undefined -DHAWSER_TEST_LABEL=quick -DHAWSER_CPU_LEVELS=v3
                -DHAWSER_JAVA=ON -DHAWSER_PYTHON=ON)
    ;;
  tsan)
    build=build-tsan packages+=("${sanitizers[@]}") select=(-L threads) parts=8
    configure+=("${clang[@]}" -DHAWSER_SANITIZE=thread -DHAWSER_TEST_LABEL=threads -DHAWSER_CPU_LEVELS=v3)
    ;;
  fuzz)
    build=build-fuzz packages+=("${sanitizers[@]}" "${crates[@]}") targets=(--target fuzzers) select=(-L fuzz)
    configure+=("${clang[@]}" -DHAWSER_SANITIZE=fuzzer-no-link+address+undefined -DHAWSER_CPU_LEVELS=generic
                -DHAWSER_TEXT=ON "-DHAWSER_FUZZ_SECONDS=$([ "$full" ] && echo 300 || echo 15)")
    ;;
  arm)
    build=build-arm packages+=("${arm64_packages[@]}" "${crates[@]}" "${bindings[@]}" debhelper dh-python mmdebstrap)
    targets=(--target arm_tests) select=(-L '^arm$')
    # Packages contain libstdc++, so a finished build is packaged as packaging/make.sh --arch arm64 would build it.
    configure+=("${plain[@]}" --toolchain packaging/aarch64.cmake -DHAWSER_STATIC_CXX=ON -DHAWSER_CUDA=OFF -DHAWSER_TEXT=ON
                -DHAWSER_PYTHON=ON -DHAWSER_JAVA=ON)
    ;;
esac
[ -z "$full" ] || parts=1 leave_out=
[ -z "$rest" ] || leave_out+=${leave_out:+|}core
[ $# -eq 0 ] || parts=1  # tests that are named run whole
if [ "${HAWSER_WITHOUT_CCACHE:-}" ]; then
  configure+=(-DCCACHE=)
  # g++ collects garbage from 1 GB on, which is an eighth faster.
  case "$suite" in core | all) configure+=(-DCMAKE_CXX_FLAGS=--param=ggc-min-heapsize=1000000) ;; esac
fi

install_packages "${packages[@]}"
if [ "$suite" = all ]; then
  if toolkit=$(bash packaging/cuda_toolkit.sh "${headers[@]}"); then
    configure+=(-DHAWSER_CUDA=ON "-DHAWSER_CUDA_TOOLKIT=$toolkit" "-DHAWSER_CUDA_ARCHITECTURES=$architectures")
  else
    echo "tests/run.sh: no CUDA toolkit: the plugin for GPUs is neither built nor tested" >&2
    configure+=(-DHAWSER_CUDA=AUTO)
  fi
fi
case "$suite" in
  all | fuzz) bash packaging/text_crates.sh ;;
  arm)
    bash packaging/text_crates.sh aarch64
    configure+=("-DHAWSER_TARGET_ROOT=$(bash packaging/arm64_root.sh)")
    ;;
esac

jobs=$(nproc)
[ -f "$build/CMakeCache.txt" ] || configure+=(-G Ninja)  # a configured folder keeps its generator
cmake -S . -B "$build" "${configure[@]}"
cmake --build "$build" --parallel "$jobs" "${targets[@]}"
trap 'python3 tests/times.py "$build" || true' EXIT
run_tests() { ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" "${select[@]}" "$@"; }

# Tests the kernels of 64-bit Arm without the engine.
test_arm_kernels() {
  local build=build-arm-kernels select=(-L '^arm_kernels$') module
  local options=("${configure[@]}" -G Ninja --toolchain packaging/aarch64.cmake)
  if ! (install_packages "${arm64_packages[@]}"); then
    echo "tests/run.sh: no compiler for 64-bit Arm: its kernels are neither compiled nor tested" >&2
    return 0
  fi
  for module in CUDA TEXT RUST JAVA PYTHON; do options+=("-DHAWSER_$module=OFF"); done
  cmake -S . -B $build "${options[@]}" && cmake --build $build --parallel "$jobs" --target arm_kernels && run_tests
}

status=0
if [ "$parts" = 1 ]; then
  run_tests ${leave_out:+-LE "$leave_out"} "$@" || status=1
else
  day=${HAWSER_DAY:-$(($(date +%s) / 86400))}
  case "$suite" in asan | tsan) export HAWSER_CONFIGS=${HAWSER_CONFIGS:-12} ;; esac  # random configs
  run_tests -LE "$leave_out|sampled" || status=1
  echo "tests/run.sh: sampled tests, part $((day % parts + 1)) of $parts (HAWSER_DAY=$day repeats it, --full runs all)"
  GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$((day % parts)) run_tests -LE "$leave_out" -L sampled || status=1
fi
[ "$suite" != all ] || [ $# -gt 0 ] || test_arm_kernels || status=1
[ $status -eq 0 ] || exit $status
if [ "$suite" = core ] && [ $# -eq 0 ]; then
  echo "These tests of the core passed. The other tests of the engine, the languages, the text module, the plugin for GPUs
and the packages did not run: bash tests/run.sh --all runs them. --asan, --tsan and --fuzz run sanitizers and fuzzers."
fi
