#!/usr/bin/env bash
# Tests a language's finetune example on small Hugging Face folders of two families: the loss of the answers falls, the
# output folder contains the trained model, and a line that is not a pair is refused.
#   finetune_test.sh FINETUNE GOLDEN_CASES
set -euo pipefail
finetune=$1 cases=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

loss_at() { sed -n "s/^step  *$1: loss \([0-9.]*\) .*/\1/p" "$2"; }
check() { # WHAT EXPRESSION: fails unless the awk expression holds
  awk "BEGIN { exit !($2) }" || { echo "$1: $2 does not hold"; exit 1; }
}

# Each prompt has three tokens, and its answer repeats them backwards. The loss covers the 3 answer tokens of
# each of the 8 rows of a step.
for i in 1 2 3 4 5 6 7 8; do
  echo "$i $((i + 8)) $((i + 16)) | $((i + 16)) $((i + 8)) $i"
done >"$work/pairs"

for model in gpt2_tanh qwen3; do
  mkdir "$work/$model"
  cp "$cases/$model/config.json" "$cases/$model"/model*.safetensors "$work/$model"
  "$finetune" "$work/$model" "$work/pairs" "$work/$model-1" >"$work/first"
  "$finetune" "$work/$model-1/model" "$work/pairs" "$work/$model-2" >"$work/second"
  first=$(loss_at 1 "$work/first") last=$(loss_at 60 "$work/first") again=$(loss_at 1 "$work/second")
  check "$model learns the answers" "$last < 0.6 * $first"
  check "$model comes back trained" "$again <= 1.05 * $last + 0.01"
  grep -q 'over 24 answer tokens' "$work/first" || { echo "$model: prompts are not masked"; exit 1; }
  cmp "$work/$model/config.json" "$work/$model-1/model/config.json"
  [ -d "$work/$model-1/checkpoint" ] || { echo "$model: no checkpoint"; exit 1; }
  echo "$model: loss $first, after 60 steps $last, of the exported folder $again"
done

if "$finetune" "$work/qwen3" "$work/pairs" "$work/qwen3-1" >"$work/third" 2>"$work/words" || [ -s "$work/third" ] ||
  ! grep -qF "$work/qwen3-1 exists; give a new folder" "$work/words"; then
  echo "trains though its folder exists: $(cat "$work/words" "$work/third")"
  exit 1
fi

refused() { # LINE: expects that this line, which is not a pair, is refused
  echo "$1" >"$work/bad"
  if "$finetune" "$work/gpt2_tanh" "$work/bad" "$work/none" 2>"$work/words"; then echo "\"$1\" is taken"; exit 1; fi
  grep -qF "\"$1\" is not of the form" "$work/words" || { cat "$work/words"; exit 1; }
}
refused "1 2 3"
refused "| 1 2"
refused "1 2 |"
refused "1 2,3 | 4"
echo "what is no pair: refused"
