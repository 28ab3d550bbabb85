#!/usr/bin/env bash
# Runs the short examples train, source and ranks of a language, as a reader would.
#   examples_test.sh EXAMPLE HAWSER
# EXAMPLE is the path of the examples, with % for the name: build/examples/cpp_%
set -euo pipefail
example=$1 hawser=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
for i in $(seq 400); do echo "line $((i % 10)) of a text that is easy to learn"; done >text

fail() { echo "$*"; exit 1; }
check() { # WHAT EXPRESSION: fails unless the awk expression holds
  awk "BEGIN { exit !($2) }" || fail "$1: $2 does not hold"
}

"${example/\%/train}" text model >train.out
first=$(sed -n 's/^step 20: loss //p' train.out) last=$(sed -n 's/^step 100: loss //p' train.out)
check "train learns" "$last < 0.7 * $first"
[ "$(grep -c '^validation: ' train.out)" = 2 ] || fail "train: no validations"
[ -f model/model.safetensors ] || fail "train: no model"
echo "train: loss $first, then $last"
code=0
"${example/\%/train}" text model >again.out 2>words || code=$?
[ "$code" = 2 ] && grep -q 'model exists; give a new folder' words && [ ! -s again.out ] ||
  fail "train begins though its folder exists: $(cat words again.out)"

# The second start resumes from the checkpoint of an interrupted run, and must reach the same loss.
"${example/\%/source}" whole >whole.out 2>whole.bar
grep -q '\[=\{40\}\] 400/400' whole.bar || fail "source: the bar does not fill"
mkdir cut && cp -r whole/step-200 cut/
"${example/\%/source}" cut >cut.out 2>/dev/null
grep -qx 'goes on after step 200' cut.out || fail "source: starts again"
[ "$(tail -1 whole.out)" = "$(tail -1 cut.out)" ] || fail "source: $(tail -1 whole.out), resumed $(tail -1 cut.out)"
check "source learns to add" "$(tail -1 whole.out | cut -d' ' -f2) < 1.2"
echo "source: $(tail -1 whole.out)"

# Four ranks as processes, started by the command, must compute bit-identical losses.
"${example/\%/ranks}" text | sed 's/.* //' >ranks.losses
"$hawser" launch -n 4 train quickstart --data text --out run --set /train/steps=20 --set /schedule/warmup_steps=5 --set '/mesh={"dp_shard": 4}' \
  --set /zero/stage=3 --set '/batch={"micro_batch": 2, "global_batch": 8}' >launch.out 2>&1 || fail "$(cat launch.out)"
python3 - <<'END'
import json
ours = [float(line) for line in open("ranks.losses")]
theirs = [json.loads(line)["loss"] for line in open("run/metrics.jsonl")]
assert len(ours) == 20 and ours == theirs, (ours, theirs)
END
echo "ranks: the bits of four processes"

for name in train source ranks; do
  code=0
  "${example/\%/$name}" 2>/dev/null || code=$?
  [ "$code" = 2 ] || fail "$name without arguments: exit code $code"
done
if "${example/\%/ranks}" nowhere 2>words; then fail "ranks trains on a file that is not there"; fi
grep -q '^ranks: .*nowhere' words || fail "$(cat words)"
