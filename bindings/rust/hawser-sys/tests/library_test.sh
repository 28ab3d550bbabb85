#!/usr/bin/env bash
# Tests a missing or wrong library: the build reports where it searched, and a program reports both ABI numbers and the
# library's path.
#   library_test.sh HEADER C_COMPILER CARGO
set -euo pipefail
header=$1 compiler=$2 cargo=$3
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "$*" >&2; exit 1; }
says() { grep -q -e "$1" "$work/said" || fail "the message lacks \"$1\": $(cat "$work/said")"; }

# Each call runs the build script anew: with the library's folder, or with pkg-config, which finds nothing.
build() { env "$@" CARGO_TARGET_DIR="$work/target" "$cargo" check --quiet --locked -p hawser-train-sys >"$work/said" 2>&1; }
! build HAWSER_LIB_DIR="$work/none" || fail "a folder that is not there was accepted"
says "HAWSER_LIB_DIR is $work/none"
! build HAWSER_LIB_DIR="$work" || fail "a folder without the library was accepted"
says "has no libhawser.so"
# A library that is not for this machine: the header of this shell, with the number of another processor (e_machine).
case "$(uname -m)" in x86_64) own=x86_64 other=aarch64 number='\267' ;; *) own=aarch64 other=x86_64 number='\076' ;; esac
mkdir "$work/other"
head -c 64 "$(readlink -f /proc/$$/exe)" >"$work/other/libhawser.so"
printf "$number" | dd of="$work/other/libhawser.so" bs=1 seek=18 conv=notrunc status=none
! build HAWSER_LIB_DIR="$work/other" || fail "a library for another processor was accepted"
says "$work/other/libhawser.so is for $other processors, but this build is for $own"
says "libhawser.so for $own"
! build -u HAWSER_LIB_DIR PKG_CONFIG_LIBDIR="$work" || fail "no library was accepted"
says "or set HAWSER_LIB_DIR"
build -u HAWSER_LIB_DIR PKG_CONFIG_LIBDIR="$work" DOCS_RS=1 || fail "documentation needs the library: $(cat "$work/said")"

# Makes a library with another ABI number. It defines all names, but only the calls that check its ABI may be made.
{
  echo '#include <stdlib.h>'
  grep -o '^HWS_API .*' "$header" | grep -o 'hws_[a-z0-9_]*(' | tr -d '(' | grep -v '^hws_library_abi$' |
    sed 's/.*/void &(void) { abort(); }/'
  echo 'unsigned hws_library_abi(void) { return 7; }'
} >"$work/other.c"
"$compiler" -shared -fPIC -Wl,-soname,libhawser.so.0 -o "$work/libhawser.so.0" "$work/other.c"
program=$("$cargo" test --no-run --locked -p hawser-train --test abi 2>&1 | sed -n 's/.*(\(.*\/abi-[0-9a-f]*\))$/\1/p')
[ -x "$program" ] || fail "no program to run: $program"
LD_LIBRARY_PATH="$work" "$program" --ignored --nocapture >"$work/said" 2>&1 || true
says "built for ABI 1"
says "has ABI 7"
says "$work/libhawser.so.0"
says "HWS_ABI_MISMATCH\|AbiMismatch"
