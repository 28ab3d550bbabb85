#!/usr/bin/env python3
"""Measures the cost of dividing a model, a row or experts: compares N ranks of one thread with one rank of N threads.

  PYTHONPATH=build/python python3 tests/bench/mesh.py [--preset gpt2-124m] [--ranks 2] [--steps 8] [--only tp,cp,ep]

Both engines run in one process, on the same random tokens, and take steps in turn, so that a busy machine disturbs
both. Prints the median step time of each, and their ratio: one rank's time divided by the ranks' time. For cp, also
prints each rank's share of attention's FLOPs, from its plan. ep uses a mixture of 16 experts; with "hot", all rows go
to the first experts, which are on one rank.
"""
import argparse
import json
import statistics
import time

import numpy

import hawser
from workloads import MIXTURE

WORKLOADS = {  # rows x tokens, the mesh
    "tp": [(4, 64, {"tp": 0}), (1, 512, {"tp": 0}), (1, 512, {"tp": 0, "sequence_parallel": False})],
    "ep": [(4, 256, {"ep": 0, "dp_shard": 0}), (16, 256, {"ep": 0, "dp_shard": 0}), (4, 256, {"ep": 0, "dp_shard": 0, "hot": True})],
    "cp": [(1, 4096, {"cp": 0}), (1, 4096, {"cp": 0, "cp_mode": "ulysses"}), (1, 4096, {"cp": 0, "cp_mode": "gather"})],
}


def engine(preset, rows, tokens, precision, threads, mesh, ranks):
    hot = mesh.get("hot")
    mesh = {key: value for key, value in mesh.items() if key != "hot"}
    config = {
        "preset": preset,
        "precision": precision,
        "batch": {"micro_batch": rows, "grad_accum_steps": 1, "sequence": tokens},
        "model": {"dropout": {"embedding": 0, "attention": 0, "residual": 0}},
        "train": {"steps": 1000},
        "schedule": {"warmup_steps": 1},
        "cpu": {"threads": threads},
        "mesh": mesh,
    }
    if tokens > 1024:
        config["model"]["context"] = tokens
    if preset == "mixture":
        del config["preset"]
        config["model"] = {**MIXTURE, **config["model"]}
    made = hawser.Engine(config, ranks=ranks if ranks > 1 else None)
    for layer in range(MIXTURE["layers"] if hot else 0):
        made.set_tensor(f"blocks.{layer}.moe.router.weight", numpy.zeros((16, MIXTURE["width"]), numpy.float32))
    return made


def measure(preset, rows, tokens, precision, mesh, ranks, steps):
    mesh = {key: value or ranks if key in ("tp", "cp", "ep", "dp_shard") else value for key, value in mesh.items()}
    own_rows = rows // mesh.get("dp_shard", 1)
    # /cpu/threads is the total for all ranks of a process.
    alone = {"hot": True} if mesh.get("hot") else {}
    sides = [
        engine(preset, rows, tokens, precision, ranks, alone, 1),
        engine(preset, own_rows, tokens, precision, ranks, mesh, ranks),
    ]
    rng = numpy.random.default_rng(3)
    seconds = [[], []]
    losses = []
    for step in range(steps + 2):
        batch = rng.integers(0, sides[0].sizes().vocab_size, (2, rows, tokens), dtype=numpy.int32)
        order = (0, 1) if step % 2 == 0 else (1, 0)
        for side in order:
            sides[side].push(batch[0], batch[1])
            begin = time.perf_counter()
            result = sides[side].train_step()
            if step >= 2:
                seconds[side].append(time.perf_counter() - begin)
            else:
                losses.append(result.loss)
    for side in sides:
        side.close()
    one, many = (statistics.median(s) for s in seconds)
    pairs = sorted(a / b for a, b in zip(*seconds))
    print(
        f"{json.dumps(mesh)} {rows} x {tokens} {precision}: one rank {1e3 * one:.0f} ms, {ranks} ranks {1e3 * many:.0f} ms, "
        f"ratio {one / many:.3f} (pairs {pairs[0]:.2f} to {pairs[-1]:.2f}); first losses {losses[0]:.5f}, {losses[1]:.5f}",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", default="gpt2-124m")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--only", default="tp,cp")
    parser.add_argument("--precision", default="fp32,bf16")
    args = parser.parse_args()
    for name in args.only.split(","):
        for rows, tokens, mesh in WORKLOADS[name]:
            for precision in args.precision.split(","):
                measure("mixture" if name == "ep" else args.preset, rows, tokens, precision, mesh, args.ranks, args.steps)


main()
