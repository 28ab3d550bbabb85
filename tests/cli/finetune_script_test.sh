#!/usr/bin/env bash
# Tests the steps of examples/finetune.sh with a finished build: the model knows an answer of the rows only after
# fine-tuning, also in the exported folder.
#   finetune_script_test.sh SCRIPT BUILD_FOLDER
set -euo pipefail
script=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

bash "$script" --built "$build" --out "$work/out" >"$work/log" 2>&1 || { cat "$work/log"; exit 1; }
answer="Ada Brook is the harbour master."
[ "$(grep -cF "$answer" "$work/log")" = 1 ] || { cat "$work/log"; echo "the answer must come once, after fine-tuning"; exit 1; }
said=$("$build/hawser" chat "$work/out/my-model" "Who is the harbour master?" --temperature 0)
[ "$said" = "$answer" ] || { echo "the exported model says: $said"; exit 1; }
grep -q 'precision bf16' "$work/log" || { cat "$work/log"; echo "the folder is bf16, and the run is not"; exit 1; }
echo "after fine-tuning: $said"
