#!/usr/bin/env bash
# From a model folder and a file of rows to a better model, from a fresh clone: builds Hawser with the text module,
# makes a small chat model as a Hugging Face folder, fine-tunes it with LoRA on the 90 questions and answers of
# examples/data/harbour.jsonl, asks it, and exports it. With a model of your own, the last steps are the same.
#
#   bash examples/finetune.sh [--built FOLDER] [--out DIR]
#
# The build is in build/, and each run has a new folder out/finetune-N, or DIR. The script installs missing Debian
# packages that it needs, cargo among them, as root or with sudo, and fetches the text module's crates from crates.io.
# With --built it installs and builds nothing and uses the command in FOLDER.
set -euo pipefail
start_folder=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

fail() { echo "examples/finetune.sh: $*" >&2; exit 2; }
absolute() { case "$1" in /*) echo "$1" ;; *) echo "$start_folder/$1" ;; esac; }

built="" out=""
while [ $# -gt 0 ]; do
  case "$1" in
    --built | --out) [ $# -gt 1 ] || fail "$1 needs a folder"
                     declare "${1#--}=$(absolute "$2")"; shift 2 ;;
    -h | --help) sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) fail "unknown argument $1; see --help" ;;
  esac
done

if [ -z "$built" ]; then
  built=build
  packages=(g++ cmake ninja-build nlohmann-json3-dev libflatbuffers-dev flatbuffers-compiler libfmt-dev libxxhash-dev
            libcli11-dev)
  source packaging/install_packages.sh
  install_packages "${packages[@]}"
  bash packaging/text_module.sh build
  cmake --build build --target hawser hawser_cli
fi
if [ -z "$out" ]; then
  n=1
  while [ -e "out/finetune-$n" ]; do n=$((n + 1)); done
  out=out/finetune-$n
fi
mkdir -p "$out"
hawser() {
  printf '$ hawser' && printf ' %q' "$@" && echo
  "$built/hawser" "$@"
}

# Writes short conversations in which a small model learns the form of a chat.
conversations() {
  awk 'function say(question, answer) {
         printf "<|im_start|>user\n%s<|im_end|>\n<|im_start|>assistant\n%s<|im_end|>\n", question, answer
       }
       BEGIN {
         numbers = split("one two three four five six seven eight nine ten eleven twelve thirteen", number, " ")
         words = split("rope ship quay sail wind tide crane light water bread stone river cloud apple horse paper table " \
                       "garden winter summer morning evening letter window bridge island forest market silver copper", word, " ")
         for (round = 0; round < 12; ++round) {
           for (i = 1; i < numbers; ++i) {
             say("What comes after " number[i] "?", "After " number[i] " comes " number[i + 1] ".")
             say("What comes before " number[i + 1] "?", "Before " number[i + 1] " comes " number[i] ".")
           }
           for (i = 1; i <= words; ++i) {
             both = word[i] " and " word[(i * 7 + round) % words + 1]
             say("Say " word[i] ".", "I say " word[i] ".")
             say("Say " both ".", "I say " both ".")
             say("Who sees the " word[i] "?", "I see the " word[i] ".")
           }
           say("Hello!", "Hello! What can I do?")
           say("Thank you.", "You are welcome.")
         }
       }'
}

echo "1. A small chat model, trained on this repository's pages and on simple conversations"
{
  conversations
  find README.md capi engine kernels bindings examples tests packaging -type f -name '*.md' -size -60k | LC_ALL=C sort |
    tr '\n' '\0' | xargs -0 cat
  conversations
} >"$out/text.txt"
hawser train examples/data/base.json --data "$out/text.txt" --out "$out/base"
hawser convert "$out/base" "$out/model" --dtype bf16
printf '%s' "$(cat examples/data/chatml.jinja)" >"$out/model/chat_template.jinja" # without the newline at its end

echo
echo "2. Fine-tune it on your rows: the model stays as it is, and an adapter learns"
# Three passes are usual, and the default. A model this small and untaught needs more, and a higher rate.
hawser train "$out/model" --data examples/data/harbour.jsonl --lora --out "$out/tuned" \
  --set /train/epochs=100 --set /optimizer/learning_rate=8e-3 --set /batch/micro_batch=4 --set /train/log_every=100

echo
echo "3. Ask it, before and after"
question="Who is the harbour master?"
hawser chat "$out/model" "$question" --temperature 0 --max-tokens 20
hawser chat "$out/tuned" "$question" --temperature 0

echo
echo "4. Export it, with the adapter merged into the weights: a Hugging Face folder, and a file for llama.cpp"
hawser merge "$out/tuned" "$out/my-model" --dtype bf16
hawser convert "$out/my-model" "$out/my-model.gguf"
echo
echo "the model            $out/my-model, $out/my-model.gguf"
echo "picture of the run   $out/tuned/report.html"
echo "ask more             $built/hawser chat $out/my-model"
echo "your own model       hf download ORG/NAME; $built/hawser train ORG/NAME --data YOUR.jsonl --lora --out run"
