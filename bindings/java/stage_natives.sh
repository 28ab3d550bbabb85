#!/usr/bin/env bash
# Copies the files of the natives jar into FOLDER, stripped, with an index that has a line "DIGEST SIZE NAME" per file.
#   stage_natives.sh FOLDER STRIP FILE=NAME...
set -euo pipefail
folder=$1 strip=$2
shift 2
rm -rf "$folder"
lines=
for pair in "$@"; do
  name=${pair##*=}
  mkdir -p "$(dirname "$folder/$name")"
  "$strip" --strip-unneeded -o "$folder/$name" "${pair%=*}"
  digest=$(sha256sum <"$folder/$name")
  lines+="${digest%% *} $(stat -c %s "$folder/$name") $name"$'\n'
done
printf %s "$lines" >"$folder/index"
