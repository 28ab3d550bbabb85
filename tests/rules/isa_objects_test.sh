#!/usr/bin/env bash
# Objects that are compiled for one CPU level must share nothing with those of another: a weak symbol (an inline
# function, a template) would let the linker keep the AVX-512 copy for everyone, and a static initialiser would run
# before the level is chosen.
#
#   isa_objects_test.sh NM OBJDUMP OBJECT...
set -euo pipefail

nm=$1 objdump=$2
shift 2
[ $# -gt 0 ] || { echo "no object of a CPU level" >&2; exit 1; }
status=0
complain() { echo "$1: $2" >&2; status=1; }
for object in "$@"; do
  symbols=$("$nm" -C "$object")
  [ -n "$symbols" ] || complain "$object" "nm lists no symbols"
  weak=$(grep -E '^[0-9a-f ]{16} [WwVvu] ' <<<"$symbols") && complain "$object" "weak symbols: $weak"
  initialisers=$("$objdump" -h "$object" | grep -E '\.(init_array|ctors)') && complain "$object" "$initialisers"
done
exit $status
