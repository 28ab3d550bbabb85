"""Compares held-out losses of an adapter trained by Hawser and by PEFT, on the same base, start and rows.

    PYTHONPATH=build/python python3 tests/bench/held_out.py TEXT OTHER --peer PYTHON [--steps 200]

Hawser trains a small Llama on the bytes of TEXT. Then both train LoRA of rank 16 on the first nine tenths of OTHER.
PYTHON is the interpreter of an environment with torch, transformers and peft.
"""

import argparse
import tempfile
from pathlib import Path

import numpy

import hawser
from peer import Peer

MODEL = {
    "vocab_size": 256, "context": 128, "layers": 4, "width": 192, "heads": 6, "norm": "rms_norm", "mlp": "swiglu",
    "position": "rotary", "tied_head": False,
}
ROWS, TOKENS, THREADS, RATE = 16, 128, 2, 1e-3


def batches(data, rng, steps):
    for _ in range(steps):
        starts = rng.integers(0, len(data) - TOKENS - 1, ROWS)
        rows = numpy.stack([data[s : s + TOKENS + 1] for s in starts]).astype(numpy.int32)
        yield numpy.ascontiguousarray(rows[:, :-1]), numpy.ascontiguousarray(rows[:, 1:])


def config(**more):
    return {
        "batch": {"micro_batch": ROWS, "grad_accum_steps": 1, "sequence": TOKENS},
        "optimizer": {"learning_rate": RATE, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0},
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "train": {"steps": 100000},
        "cpu": {"threads": THREADS},
        **more,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("text", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--steps", type=int, default=200)
    args = parser.parse_args()
    data, other = (numpy.frombuffer(path.read_bytes(), numpy.uint8) for path in (args.text, args.other))
    cut = len(other) * 9 // 10
    held_out = next(batches(other[cut:], numpy.random.default_rng(7), 1))
    with tempfile.TemporaryDirectory() as scratch:
        base, start, file = Path(scratch) / "base", Path(scratch) / "start", Path(scratch) / "ids"
        with hawser.Engine(config(model=MODEL)) as engine:
            for tokens, targets in batches(data, numpy.random.default_rng(1), 3 * args.steps):
                engine.push(tokens, targets)
                loss = engine.train_step().loss
            print(f"base: last loss {loss:.4f}, on the other text {engine.evaluate(*held_out).loss:.4f}", flush=True)
            engine.export(base, "f32")
        with hawser.Engine(config(init={"from": str(base)}, adapter={"rank": 16, "alpha": 32})) as engine:
            engine.export_adapter(start)
            peer = Peer(args.peer, base, ROWS, TOKENS, "fp32", THREADS, "--adapter", str(start), "--rate", str(RATE))
            for number, (tokens, targets) in enumerate(batches(other[:cut], numpy.random.default_rng(2), args.steps), 1):
                engine.push(tokens, targets)
                ours = engine.train_step().loss
                numpy.stack([tokens, targets]).tofile(file)
                theirs = peer.step(file)[1]
                if number in (1, args.steps // 2, args.steps):
                    print(f"step {number}: Hawser {ours:.5f}, PEFT {theirs:.5f}", flush=True)
            numpy.stack(held_out).tofile(file)
            theirs = peer.step(f"eval {file}")[1]
            print(f"held out: Hawser {engine.evaluate(*held_out).loss:.5f}, PEFT {theirs:.5f}")
            peer.close()


main()
