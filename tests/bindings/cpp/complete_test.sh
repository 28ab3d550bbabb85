#!/usr/bin/env bash
# Tests that hawser.hpp calls every function of hawser.h, has a class for every status, includes only hawser.h and the
# standard library, and compiles alone with each compiler of this machine.
#   complete_test.sh INCLUDE_FOLDER
set -euo pipefail
include=$1
status=0
complain() { echo "$*"; status=1; }

code=$(sed -e 's,//.*,,' "$include/hawser.hpp")
for name in $(grep -o '^HWS_API .*' "$include/hawser.h" | grep -o 'hws_[a-z0-9_]*(' | tr -d '('); do
  grep -qw "$name" <<<"$code" || complain "hawser.hpp does not use $name"
done
statuses=$(sed -n 's/^#define \(HWS_[A-Z_]*\) [0-9]*$/\1/p' "$include/hawser.h" | sed -n '/^HWS_OK$/,/^HWS_CALLBACK$/p')
[ "$(wc -w <<<"$statuses")" -gt 25 ] || complain "the statuses of hawser.h were not found"
for name in $statuses; do
  [ "$name" = HWS_OK ] || grep -q "^using [A-Z][A-Za-z]* = ErrorOf<$name>;" <<<"$code" || complain "$name has no class"
done
if grep -E '^ *# *include' <<<"$code" | grep -vE '<(hawser\.h|[a-z_]+)>'; then complain "hawser.hpp includes more"; fi
for compiler in g++ clang++; do
  command -v "$compiler" >/dev/null || { echo "no $compiler"; continue; }
  echo '#include "hawser.hpp"' |
    "$compiler" -x c++ -std=c++20 -I "$include" -Wall -Wextra -pedantic -Wshadow -Werror -fsyntax-only - &&
    echo "$compiler" || status=1
done
exit $status
