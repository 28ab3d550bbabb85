"""Compares the speed of Hawser and Transformers on the same cores, folder and tokens. Both take steps in turn.

    PYTHONPATH=build/python python3 tests/bench/beside_transformers.py mixture|lora --peer PYTHON [--steps 8] [--precision bf16]

mixture: a Mixtral of 4 layers, 16 experts, top 2, compared with the eager and grouped experts of Transformers. lora:
Qwen2.5-0.5B's shape with LoRA of rank 16, compared with PEFT. PYTHON is the interpreter of an environment with torch,
transformers and peft. Weights are random. Both print their first losses, which show whether both compute the same.
"""

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path

import numpy

import hawser
from peer import Peer
from workloads import MIXTURE

THREADS = 2


def compare(name, config, peers, rows, tokens, vocabulary, steps, scratch):
    engine = hawser.Engine(config)
    rng = numpy.random.default_rng(3)
    seconds = {label: [] for label in ["hawser", *peers]}
    losses = {label: [] for label in seconds}
    for step in range(steps + 2):
        ids = rng.integers(0, vocabulary, (2, rows, tokens), dtype=numpy.int32)
        file = Path(scratch) / "ids"
        ids.tofile(file)
        for label in seconds if step % 2 == 0 else reversed(list(seconds)):
            if label == "hawser":
                engine.push(ids[0], ids[1])
                begin = time.perf_counter()
                loss = engine.train_step().loss
                taken = time.perf_counter() - begin
            else:
                taken, loss = peers[label].step(file)
            losses[label].append(loss)
            if step >= 2:
                seconds[label].append(taken)
    for peer in peers.values():
        peer.close()
    engine.close()
    own = statistics.median(seconds["hawser"])
    for label, values in seconds.items():
        median = statistics.median(values)
        print(
            f"{name} {rows} x {tokens}, {label}: {rows * tokens / median:.1f} tokens/s, {median / own:.2f} x Hawser's time "
            f"(best {min(values) / min(seconds['hawser']):.2f}); losses {losses[label][0]:.5f} to {losses[label][-1]:.5f}",
            flush=True,
        )


def export(config, folder):
    with hawser.Engine({**config, "batch": {"micro_batch": 1, "sequence": 16}}, inference=True) as engine:
        engine.export(folder, "f32")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["mixture", "lora"])
    parser.add_argument("--peer", required=True)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--precision", default="fp32,bf16")
    args = parser.parse_args()
    common = {
        "optimizer": {"learning_rate": 1e-4, "beta1": 0.9, "beta2": 0.95, "weight_decay": 0},
        "schedule": {"kind": "constant", "warmup_steps": 0},
        "train": {"steps": 1000},
        "cpu": {"threads": THREADS},
    }
    for precision in args.precision.split(","):
        with tempfile.TemporaryDirectory() as scratch:
            folder = Path(scratch) / "model"
            if args.what == "mixture":
                rows, tokens, vocabulary = 4, 256, MIXTURE["vocab_size"]
                export({"model": {**MIXTURE, "position": "rotary"}}, folder)
                peers = {
                    name: Peer(args.peer, folder, rows, tokens, precision, THREADS, "--experts", name)
                    for name in ("eager", "grouped_mm")
                }
                config = {**common, "moe": {"aux_loss": 0}}
            else:
                rows, tokens = 1, 512
                export({"preset": "qwen2.5-0.5b"}, folder)
                vocabulary = 151936
                peers = {"peft": Peer(args.peer, folder, rows, tokens, precision, THREADS, "--lora", "16")}
                config = {**common, "adapter": {"rank": 16, "alpha": 32}}
            config |= {
                "precision": precision,
                "init": {"from": str(folder)},
                "batch": {"micro_batch": rows, "grad_accum_steps": 1, "sequence": tokens},
            }
            compare(f"{args.what} {precision}", config, peers, rows, tokens, vocabulary, args.steps, scratch)


main()
