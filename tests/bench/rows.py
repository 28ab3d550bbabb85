"""Measures steps with /recompute/rows next to steps without.

    python3 tests/bench/rows.py [--hawser build/hawser] [--tokens 8192] [--rows 2048] [--rounds 5]
                                  [--policies off full]

Runs of two steps take turns; the medians of the last steps are printed. The model has the shape of Qwen2.5-0.5B with
two layers and a small vocabulary, so that MLPs and attention take most of the time.
"""

import argparse
import array
import json
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

VOCABULARY, STEPS = 1024, 2


def config(data, tokens, recompute):
    return {
        "precision": "bf16",
        "model": {"layers": 2, "vocab_size": VOCABULARY, "context": tokens, "width": 896, "heads": 14, "kv_heads": 2,
                  "mlp_width": 4864, "norm": "rms_norm", "mlp": "swiglu", "position": "rotary"},
        "batch": {"micro_batch": 1, "grad_accum_steps": 1, "sequence": tokens},
        "data": {"format": "tokens", "token_type": "u16", "path": str(data), "validation_fraction": 0},
        "train": {"steps": STEPS},
        "recompute": recompute,
    }


def run(args, scratch, name, settings):
    """Returns the seconds of the last step and the losses of all."""
    out, file = scratch / name, scratch / f"{name}.json"
    file.write_text(json.dumps(settings))
    command = [args.hawser, "train", str(file), "--out", str(out), "--threads", "2"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [step for step in steps if "loss" in step and "seconds" in step]
    return steps[-1]["seconds"], [step["loss"] for step in steps]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hawser", default="build/hawser")
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--rows", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--policies", nargs="+", default=["off", "full"])
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        drawn = random.Random(1)
        tokens = array.array("H", (drawn.randrange(VOCABULARY) for _ in range((args.tokens + 1) * (STEPS + 1))))
        (scratch / "data.bin").write_bytes(tokens.tobytes())
        for policy in args.policies:
            seconds, losses = {0: [], args.rows: []}, {}
            for turn in range(args.rounds):
                for rows in seconds:
                    settings = config(scratch / "data.bin", args.tokens, {"policy": policy, "rows": rows})
                    last, losses[rows] = run(args, scratch, f"{policy}-{rows}-{turn}", settings)
                    seconds[rows].append(last)
            whole, tiled = (statistics.median(s) for s in seconds.values())
            print(f"policy {policy}, {args.tokens} tokens: {whole:.3f} s; {args.rows} at a time: {tiled:.3f} s, "
                  f"ratio {tiled / whole:.3f}; same losses: {losses[0] == losses[args.rows]}", flush=True)


if __name__ == "__main__":
    main()
