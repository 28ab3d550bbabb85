#!/usr/bin/env bash
# The C API against the checked-in description of it: whatever a program that was built earlier would notice. An
# addition is fine (write the baseline anew with --update); anything else breaks the ABI.
#
# Looked at is the header, compiled into a library of empty functions with debug information: the library itself has
# none, without which abidiff sees no struct.
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
# 4: the ABI has changed; 8 with it: incompatibly. Additions alone are told but pass.
status=0
abidiff --no-added-syms "$baseline" "$folder/libhawser.so.0" || status=$?
[ $status -eq 0 ] || { echo "the C API has changed; an addition goes into the baseline: $0 ... --update"; exit 1; }
