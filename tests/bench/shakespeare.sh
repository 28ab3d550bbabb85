#!/usr/bin/env bash
# Times nanoGPT's CPU example (4 layers, 4 heads, width 128, context 64, 2,000 steps of 12 rows) on its text. Trains
# examples/shakespeare.json as a process of its own, with as many evaluation batches as nanoGPT (9 x 2 x 20). Prints the
# seconds from exec to exit, the share of the time that the arithmetic alone takes at the peak of these cores, and the
# loss
# over the complete validation part. nanoGPT reports 1.88 on samples. Both use all cores that taskset allows.
#
#   bash tests/bench/shakespeare.sh TEXT_FILE [PRECISION [PEER]]      (PRECISION: fp32 or bf16)
#
# PEER is a command that runs nanoGPT's own example, which is then timed too. In nanoGPT's folder, with PyTorch:
#   python train.py config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=20 --log_interval=1 \
#     --block_size=64 --batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0
set -euo pipefail
[ $# -ge 1 ] && [ -f "$1" ] || { echo "usage: bash tests/bench/shakespeare.sh TEXT_FILE [fp32|bf16 [PEER]]" >&2; exit 2; }
text=$(realpath "$1")
precision=${2:-fp32}
peer=${3:-}
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
[ -x build/hawser ] && [ -x build/bench/bench_limits ] || { echo "build/hawser or build/bench/bench_limits is missing: bash tests/run.sh builds it" >&2; exit 2; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
seconds_of() {
  local begin=$EPOCHREALTIME
  "$@" >"$scratch/log" 2>&1 || { tail -n 5 "$scratch/log" >&2; return 1; }
  python3 -c 'import sys; print(f"{float(sys.argv[2]) - float(sys.argv[1]):.1f}")' "$begin" "$EPOCHREALTIME"
}

# Makes 8 evaluations of 45 batches, 360 batches in total. (nanoGPT makes 9, one of them before its first step.)
ours=$(seconds_of build/hawser train examples/shakespeare.json --set "/precision=$precision" --set /train/eval_batches=45 \
  --set /train/sample_every=0 --data "$text" --out "$scratch/run")
limits=$(build/bench/bench_limits "$(nproc)")
python3 - "$text" "$scratch/validation.txt" <<'PYTHON'
import sys
text = open(sys.argv[1], newline="").read()
open(sys.argv[2], "w", newline="").write(text[int(len(text) * 0.9):])
PYTHON
loss=$(build/hawser eval "$scratch/run" --data "$scratch/validation.txt" --json |
  python3 -c 'import json, sys; print("%.4f" % json.load(sys.stdin)["loss"])')
echo "$precision, $(nproc) threads: $ours s from exec to exit; loss over the whole validation part $loss (wanted <= 1.93)"
# Counts the matrix products of 4 layers of 12 width^2 and of a head of 65 token ids, and causal attention over 64
# positions. The backward counts twice.
python3 - "$limits" "$precision" "$ours" <<'PYTHON'
import json, sys
limits, precision, seconds = json.loads(sys.argv[1]), sys.argv[2], float(sys.argv[3])
forward = 2 * (4 * 12 * 128**2 + 65 * 128) + 2 * 4 * 64 * 128
flops = 12 * 64 * forward * (3 * 2000 + 360)
peak = limits[precision]
print(f"arithmetic alone at {peak * 1e-9:.0f} GFLOP/s: {flops / peak:.1f} s, {100 * flops / peak / seconds:.0f} % of that time")
PYTHON
[ -n "$peer" ] || exit 0
theirs=$(seconds_of bash -c "$peer")
python3 -c 'import sys; a, b = map(float, sys.argv[1:]); print(f"peer: {b} s, {b / a:.2f} times as long (wanted >= 3)")' "$ours" "$theirs"
