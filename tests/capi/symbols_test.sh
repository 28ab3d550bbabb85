#!/usr/bin/env bash
# Tests that libhawser.so exports exactly the symbols of the checked-in list, that these are exactly the functions of
# hawser.h, and that a C test calls each of them. Also tests which libraries and functions libhawser.so itself uses.
#   symbols_test.sh LIBRARY SYMBOL_LIST HEADER TEST_FOLDER
set -euo pipefail
library=$1 list=$2 header=$3 tests=$4
status=0
complain() { echo "$*"; status=1; }

wanted=$(grep '^hws_' "$list" | sort)
exported=$(nm -D --defined-only "$library" | awk '$2 != "A" {print $3}' | sed 's/@.*//' | sort)
declared=$(grep -o '^HWS_API .*' "$header" | grep -o 'hws_[a-z0-9_]*(' | tr -d '(' | sort)
diff <(echo "$wanted") <(echo "$exported") || complain "exports (>) differ from $list (<)"
diff <(echo "$wanted") <(echo "$declared") || complain "functions of $header (>) differ from $list (<)"
for symbol in $wanted; do
  grep -qw "$symbol" "$tests"/*.c || complain "no C test calls $symbol"
done

dynamic=$(readelf -Wd "$library")
grep -q 'SONAME.*\[libhawser\.so\.0\]' <<<"$dynamic" || complain "the SONAME is not libhawser.so.0"
grep -q 'NODELETE' <<<"$dynamic" || complain "the library is not marked nodelete"
grep -qE '(RPATH|RUNPATH)' <<<"$dynamic" && complain "the library has a run path"
needed=$(grep NEEDED <<<"$dynamic" | sed 's/.*\[\(.*\)\]/\1/')
for name in $needed; do
  case $name in
    libc.so.6 | libm.so.6 | libgcc_s.so.1 | libstdc++.so.6 | ld-linux*) ;;
    *) complain "the library needs $name" ;;
  esac
done
copy=$(mktemp)
trap 'rm -f "$copy"' EXIT
strip -o "$copy" "$library"
bytes=$(stat -c %s "$copy")
echo "stripped: $bytes bytes"
[ "$bytes" -lt 6050000 ] || complain "the stripped library is larger than 6.0 MB, and README.md states six megabytes"
exit $status
