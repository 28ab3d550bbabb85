#!/usr/bin/env bash
# Lays out the files of the natives jar, stripped, with an index: a line "DIGEST SIZE NAME" for each.
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
