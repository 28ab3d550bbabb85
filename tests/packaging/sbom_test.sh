#!/usr/bin/env bash
# Tests the SBOMs: an SPDX validator accepts them, the library's SBOM lists every project whose headers our sources
# include,
# the text module's SBOM lists its crates, and no version is missing.
#   sbom_test.sh SBOM SOURCE_FOLDER TOOLS_FOLDER
set -euo pipefail
sbom=$1 source=$2
source "$source/packaging/portable_build.sh"
python_tools "$3"
status=0
complain() { echo "$*"; status=1; }

text=$(dirname "$sbom")/hawser-text.spdx.json
for document in "$sbom" "$text"; do
  "$tools/pyspdxtools" -i "$document" || complain "the validator refuses $document"
done
for crate in tokenizers minijinja parquet onig_sys "Rust standard library"; do
  grep -q "\"name\": \"$crate\"" "$text" || complain "$crate is not in $text"
done
python3 - "$sbom" "$version" <<'PYTHON' || status=1
import json, sys
sbom = json.load(open(sys.argv[1]))
packages = {p["name"]: p for p in sbom["packages"]}
assert packages["hawser"]["versionInfo"] == sys.argv[2], packages["hawser"]
assert sbom["spdxVersion"] == "SPDX-2.3"
static = {r["relatedSpdxElement"] for r in sbom["relationships"] if r["relationshipType"] == "STATIC_LINK"}
for package in sbom["packages"]:
    assert package["SPDXID"] not in static or package.get("versionInfo", "").count("."), package
PYTHON

# Maps the first part of a third-party header's path to its project. Headers of the system have no entry.
declare -A project=([flatbuffers]=FlatBuffers [fmt]=fmt [nlohmann]=nlohmann-json [xxhash.h]=xxHash [CLI]=CLI11 [sodium.h]=libsodium)
# Python.h and jni.h declare the program that loads the module; arm_neon.h comes with compilers for Arm.
theirs='^(cuda|cudnn|sanitizer|sys|linux|asm|net|netinet|arpa|hawser|Python\.h|jni\.h|arm_neon\.h)'
while read -r header; do
  name=${header%%/*}
  [[ ! $name =~ $theirs ]] || continue
  if [ -n "${project[$name]:-}" ]; then
    grep -q "\"name\": \"${project[$name]}\"" "$sbom" || complain "${project[$name]} is not in $sbom"
  elif [ ! -e "/usr/include/$name" ] || ! dpkg -S "/usr/include/$name" 2>/dev/null | grep -q '^libc6-dev\|^linux-libc-dev'; then
    [ -e "$(cc -print-file-name=include/"$name")" ] || complain "<$header>: whose is it? a row in packaging/THIRD_PARTY.txt"
  fi
done < <(cd "$source" && grep -rhoE '^#include <[A-Za-z_0-9/]+\.(h|hpp)>' engine kernels capi bindings --include=*.cc --include=*.h |
         sed 's/.*<\(.*\)>/\1/' | sort -u)
for name in "${project[@]}"; do
  [ "$name" = libsodium ] || grep -q "^Name: $name$" "$source/packaging/THIRD_PARTY.txt" || complain "no licence of $name"
done
exit $status
