#!/usr/bin/env bash
# Tests the arm64 packages of one kind on this machine: unpacks them, and trains with each of their programs, libraries and
# modules under qemu-user, with Debian's Python and Java for arm64 (packaging/arm64_root.sh).
#   arm64_test.sh KIND DIST SOURCE_FOLDER TOOLS_FOLDER        KIND: tarball, deb, conda, wheel or jar
set -euo pipefail
kind=$1 source=$3
export HAWSER_DIST=$2 HAWSER_ARCH=arm64
source "$source/packaging/portable_build.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
debian=$(bash "$source/packaging/arm64_root.sh")
for _ in $(seq 60); do echo "Many strands, one pull. The rope pulls a ship along the quay and back."; done >"$work/text.txt"
model='"model": {"vocab_size": 256, "context": 16, "layers": 1, "width": 32, "heads": 2}'
cat >"$work/config.json" <<JSON
{$model, "data": {"path": "text.txt", "format": "text", "vocabulary": "bytes"}, "train": {"steps": 8, "eval_every": 0}}
JSON

# arm FOLDER PROGRAM...: runs a program for Arm; FOLDER has the shared libraries that its run path does not find.
arm() { qemu-aarch64 -L "$debian" -E LD_LIBRARY_PATH="$1" "${@:2}"; }

# only_arm FOLDER LEAST: every ELF file of the folder is for Arm and needs only glibc 2.34; there are at least LEAST.
only_arm() {
  local count=0 file glibc
  while read -r -d '' file; do
    [ "$(head -c 4 "$file" | od -An -c | tr -d ' ')" = '177ELF' ] || continue
    readelf -h "$file" | grep -q 'Machine: *AArch64' || fail "$file is not for Arm"
    glibc=$(readelf -V "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
    [ "$(printf '%s\n' "$glibc" GLIBC_2.34 | sort -V | tail -1)" = GLIBC_2.34 ] || fail "$file needs $glibc"
    count=$((count + 1))
  done < <(find "$1" -type f -print0)
  [ $count -ge "$2" ] || fail "$1 has $count files for Arm instead of $2"
}

# find_by_cmake PREFIX: CMake finds the package for Arm in a cross build, and a build for this machine refuses it.
find_by_cmake() {
  mkdir "$work/project"
  cat >"$work/project/CMakeLists.txt" <<CMAKE
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(Hawser 0.1 REQUIRED)
add_executable(by_cmake $source/tests/capi/consumer.c)
target_link_libraries(by_cmake PRIVATE hawser::hawser)
CMAKE
  if cmake -S "$work/project" -B "$work/here" "-DCMAKE_PREFIX_PATH=$1" >"$work/said" 2>&1; then
    fail "a build for $(uname -m) took a library for Arm"
  fi
  tr -s ' \n' ' ' <"$work/said" | grep -q "is for aarch64 processors, but this project is built for $(uname -m)" ||
    { cat "$work/said"; fail "find_package does not name both architectures"; }
  cmake -S "$work/project" -B "$work/there" "-DCMAKE_PREFIX_PATH=$1" --toolchain "$toolchain" >"$work/said"
  cmake --build "$work/there" >"$work/said" || { cat "$work/said"; fail "a project of CMake"; }
  arm "" "$work/there/by_cmake" || fail "the program of CMake"
}

# run_command LIBRARIES HAWSER: the command trains, continues a text, and has the text module.
run_command() {
  (
    cd "$work"
    arm "$1" "$2" --version >version
    grep -qx "modules: .*text.*" version || fail "no text module: $(cat version)"
    grep -q "^CPU level: armv8" version || fail "not the kernels of Arm: $(cat version)"
    arm "$1" "$2" train config.json --out run >trained 2>&1 || { cat trained; fail "hawser train"; }
    arm "$1" "$2" generate run --prompt Many --max-tokens 8 >continued
    arm "$1" "$2" tokenizer train text.txt --vocab-size 270 --output tokenizer.json >learned
    [ -s continued ] && [ -s tokenizer.json ] || fail "no text, or no tokenizer"
    rm -r run
    if arm "$1" "$2" train config.json --out run --set /cpu/max_isa=x86-64-v3 >refused 2>&1; then fail "a level of x86-64"; fi
    grep -q '"x86-64-v3" is for x86-64 processors, but this machine is aarch64; use "generic", "armv8-a"' refused ||
      { cat refused; fail "the error of /cpu/max_isa names no levels of Arm"; }
    echo "$kind, $(sed -n 's/^CPU level: //p' version): $(grep -oE 'loss [0-9.]+' trained | tail -1)"
  )
}

# run_python FOLDER LIBRARIES: Debian's Python for arm64 trains with the module in FOLDER.
run_python() {
  cat >"$work/train.py" <<PYTHON
import platform, hawser
with hawser.Engine({$model, "data": {"path": "$work/text.txt", "vocabulary": "bytes"}, "train": {"steps": 8}}) as engine:
    losses = [record.loss for record in engine.steps()]
assert len(losses) == 8 and losses[-1] < losses[0], losses
print(f"Python {platform.python_version()}, {platform.machine()}: loss {losses[0]:.3f} to {losses[-1]:.3f}")
PYTHON
  PYTHONPATH=$1 arm "$2" "$debian/usr/bin/python3.11" "$work/train.py" >"$work/said" || { cat "$work/said"; fail "Python"; }
  grep -E "aarch64: loss" "$work/said" || fail "not the Python of arm64: $(cat "$work/said")"
}

# run_c PREFIX: a C program, cross-compiled by pkg-config's flags, trains.
run_c() {
  local flags
  eval "flags=($(PKG_CONFIG_LIBDIR=$(dirname "$(find "$1" -name hawser.pc)") pkg-config --cflags --libs hawser))"
  aarch64-linux-gnu-gcc -std=c99 "$source/tests/capi/consumer.c" "${flags[@]}" -o "$work/consumer"
  arm "$(dirname "$(find "$1" -name 'libhawser.so.0')")" "$work/consumer" || fail "the C program"
}

case "$kind" in
  tarball)
    tar -C "$work" -xf "$dist/hawser-$version-linux-aarch64.tar.gz"
    prefix=$work/hawser-$version-linux-aarch64
    only_arm "$prefix" 4
    [ -s "$prefix/share/man/man1/hawser-train.1" ] || fail "no manual pages"
    run_command "" "$prefix/bin/hawser"
    run_c "$prefix"
    find_by_cmake "$prefix"
    ;;
  deb)
    for package in libhawser0 libhawser-dev libhawser-text0 hawser python3-hawser; do
      dpkg -x "$dist/${package}_$version-1_arm64.deb" "$work/unpacked" || fail "no $package"
    done
    [ "$(dpkg-deb -f "$dist/hawser_$version-1_arm64.deb" Architecture)" = arm64 ] || fail "another architecture"
    only_arm "$work/unpacked" 5
    libraries=$work/unpacked/usr/lib/aarch64-linux-gnu
    run_command "$libraries" "$work/unpacked/usr/bin/hawser"
    run_python "$work/unpacked/usr/lib/python3/dist-packages" "$libraries"
    # The prefix in hawser.pc is relative to the file, which therefore also works in this folder.
    run_c "$work/unpacked/usr"
    ;;
  conda)
    python_tools "$4"
    "$tools/python" "$source/tests/packaging/conda_install.py" "$dist/conda" linux-aarch64 "$work/prefix" \
      libhawser-dev libhawser-text hawser
    only_arm "$work/prefix" 4
    run_command "" "$work/prefix/bin/hawser"
    run_c "$work/prefix"
    ;;
  wheel)
    python_tools "$4"
    wheel=$(ls "$dist"/hawser_train-*_aarch64.whl)
    [[ $wheel =~ cp311-abi3-manylinux_2_(2[0-9]|3[0-4])_aarch64\.whl$ ]] || fail "$wheel is not for glibc 2.34 and older"
    "$tools/pip" install --quiet --no-index --disable-pip-version-check --find-links "$dist" --target "$work/site" \
      --platform manylinux_2_34_aarch64 --python-version 3.11 --implementation cp --only-binary :all: 'hawser-train[text]'
    only_arm "$work/site" 5
    run_command "" "$work/site/hawser/bin/hawser"
    run_python "$work/site" ""
    ;;
  jar)
    jars=$dist/maven/org/hawser/hawser/$version/hawser-$version
    for natives in "$jars"-natives{,-text}-linux-aarch64.jar; do python3 -m zipfile --extract "$natives" "$work/natives"; done
    only_arm "$work/natives" 4
    readelf -d "$work"/natives/org/hawser/natives/linux-aarch64/libhawser_jni.so | grep -qF 'runpath: [$ORIGIN]' ||
      fail "libhawser_jni.so looks for libhawser in other folders than its own"
    mkdir "$work/classes"
    javac -d "$work/classes" -cp "$jars.jar" "$source/bindings/java/examples/Train.java"
    path=$jars.jar:$jars-natives-linux-aarch64.jar:$jars-natives-text-linux-aarch64.jar:$work/classes
    arm "" "$debian/usr/lib/jvm/java-17-openjdk-arm64/bin/java" "-Dhawser.cache=$work/cache" -cp "$path" \
      Train "$work/text.txt" 10 >"$work/said" 2>&1 || { cat "$work/said"; fail "Java"; }
    grep "^step 10" "$work/said" || fail "Java trained nothing: $(cat "$work/said")"
    grep -q "^The " "$work/said" || fail "Java generated nothing"
    ;;
  *) fail "which kind? (see the head of this file)" ;;
esac
