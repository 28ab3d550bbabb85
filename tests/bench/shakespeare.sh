#!/usr/bin/env bash
# nanoGPT's CPU example (4 layers, 4 heads, width 128, context 64, 2,000 steps of 12 rows) on its text: trains
# examples/shakespeare.json and prints the loss over the whole validation part. nanoGPT reports 1.88 on samples.
#
#   bash tests/bench/shakespeare.sh TEXT_FILE [PRECISION]      (PRECISION: fp32 or bf16)
set -euo pipefail
[ $# -ge 1 ] && [ -f "$1" ] || { echo "usage: bash tests/bench/shakespeare.sh TEXT_FILE [fp32|bf16]" >&2; exit 2; }
text=$(realpath "$1")
precision=${2:-fp32}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ -x build/hawser ] || { echo "build/hawser is missing: bash tests/run.sh builds it" >&2; exit 2; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
begin=$(date +%s.%N)
build/hawser train examples/shakespeare.json --set "/precision=$precision" --data "$text" --out "$scratch/run" |
  tail -n 5
end=$(date +%s.%N)
python3 - "$scratch/run/metrics.jsonl" "$precision" "$begin" "$end" <<'PYTHON'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
measured = [row for row in rows if row.get("validation_loss") is not None]
last, best = measured[-1], min(measured, key=lambda row: row["validation_loss"])
seconds = float(sys.argv[4]) - float(sys.argv[3])
print(f"{sys.argv[2]}: validation loss {last['validation_loss']:.4f} at step {last['step']} (wanted <= 1.93), "
      f"best {best['validation_loss']:.4f} at step {best['step']}; {seconds:.0f} s whole process")
PYTHON
