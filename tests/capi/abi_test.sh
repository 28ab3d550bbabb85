#!/usr/bin/env bash
# Compares the ABI of the C API with its checked-in description, to find changes that would break existing programs.
# Additions are allowed (rewrite the baseline with --update); any other change breaks the ABI.
#
# The test compiles the header into a library of empty functions with debug information, because abidiff needs debug
# information to see structs and the library itself has none.
#   abi_test.sh SYMBOL_LIST INCLUDE_FOLDER BASELINE C_COMPILER [--update]
set -euo pipefail
list=$1 include=$2 baseline=$3 compiler=$4
command -v abidw >/dev/null && command -v abidiff >/dev/null || { echo "skipped: no abigail-tools"; exit 77; }

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 - "$list" "$include/hawser.h" >"$folder/api.c" <<'PYTHON'
import re, sys

names = [line.strip() for line in open(sys.argv[1]) if line.startswith("hws_")]
text = re.sub(r"/\*.*?\*/", " ", open(sys.argv[2]).read(), flags=re.S)
declarations = dict((re.search(r"\b(hws_\w+)\s*\(", d).group(1), " ".join(d.split()))
                    for d in re.findall(r"^HWS_API ([^;]*);", text, flags=re.M))
print("#include <hawser.h>")
for name in names:
    declaration = declarations[name]
    print(declaration, "{ }" if declaration.startswith("void ") else "{ return 0; }")
PYTHON
"$compiler" -std=c99 -g "-fdebug-prefix-map=$folder/=" -shared -fPIC -Wl,-soname,libhawser.so.0 -I "$include" -o "$folder/libhawser.so.0" "$folder/api.c"
if [ "${5:-}" = --update ]; then
  abidw --no-corpus-path --no-comp-dir-path --no-show-locs --drop-private-types "$folder/libhawser.so.0" --out-file "$baseline"
  exit
fi
# abidiff exits with 4 for a changed ABI, plus 8 for an incompatible change. With --no-added-syms, additions pass.
status=0
abidiff --no-added-syms "$baseline" "$folder/libhawser.so.0" || status=$?
[ $status -eq 0 ] || { echo "the C API has changed; an addition goes into the baseline: $0 ... --update"; exit 1; }
