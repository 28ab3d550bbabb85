#!/usr/bin/env python3
"""What stages of a pipeline and recompute cost, beside one rank of one thread.

  PYTHONPATH=build/python python3 tests/bench/pipeline.py [--only pp,recompute] [--steps 5]

Both engines live in one process, on the same random tokens, and take steps in turn, so that a busy machine disturbs both.
For pp: the speedup, and its share of what the schedule allows, p stages times the part of a step that is no wait, if all stages
took the same time. For recompute: the longer step, and activations at the plan's peak.
"""
import argparse
import json
import statistics
import time

import numpy

import hawser

MICRO_BATCHES = 8
SCHEDULES = [  # and its ideal share: units of work / makespan, of a chunk's forward
    ({"schedule": "1f1b"}, lambda p, m: m / (m + p - 1)),
    ({"schedule": "gpipe"}, lambda p, m: m / (m + p - 1)),
    ({"schedule": "interleaved", "chunks": 2}, lambda p, m: 2 * m / (2 * m + p - 1)),
    ({"schedule": "zb_h1"}, lambda p, m: 3 * m / (3 * m + p - 1)),
    ({"schedule": "zbv"}, lambda p, m: 6 * m / (6 * m + p - 1)),
    ({"schedule": "dualpipev"}, lambda p, m: 6 * m / (6 * m + p - 1)),
]


def config(precision, rows, tokens, micro_batches, more):
    c = {
        "preset": "gpt2-124m",
        "precision": precision,
        "batch": {"micro_batch": rows, "grad_accum_steps": micro_batches, "sequence": tokens},
        "model": {"dropout": {"embedding": 0, "attention": 0, "residual": 0}},
        "train": {"steps": 1000},
        "schedule": {"warmup_steps": 1},
        "cpu": {"threads": 1},
    }
    if tokens > 1024:
        c["model"]["context"] = tokens
    c.update(more)
    return c


def measure(configs, ranks, steps):
    """Median seconds of a step of each."""
    engines = [hawser.Engine(c, ranks=r if r > 1 else None) for c, r in zip(configs, ranks)]
    batch = configs[0]["batch"]
    rows = batch["micro_batch"] * batch["grad_accum_steps"]
    tokens = numpy.random.default_rng(3).integers(0, 50257, (2, rows, batch["sequence"]), dtype=numpy.int32)
    seconds = [[] for _ in engines]
    for step in range(steps + 2):
        order = range(len(engines)) if step % 2 == 0 else reversed(range(len(engines)))
        for i in order:
            engines[i].push(tokens[0], tokens[1])
            begin = time.perf_counter()
            engines[i].train_step()
            if step >= 2:
                seconds[i].append(time.perf_counter() - begin)
    for engine in engines:
        engine.close()
    return [statistics.median(s) for s in seconds]


def pipelines(steps):
    for precision in ("fp32", "bf16"):
        for p in (2,):
            for schedule, ideal in SCHEDULES:
                alone = config(precision, 1, 256, MICRO_BATCHES, {})
                stages = config(precision, 1, 256, MICRO_BATCHES, {"mesh": {"pp": p}, "pipeline": schedule, "cpu": {"threads": p}})
                one, many = measure([alone, stages], [1, p], steps)
                share = one / many / p / ideal(p, MICRO_BATCHES)
                print(f"pp {p} {json.dumps(schedule)} {precision}: one rank {1e3 * one:.0f} ms, {p} stages {1e3 * many:.0f} ms, "
                      f"speedup {one / many:.3f}, {share:.3f} of the ideal", flush=True)


def recompute(steps):
    for rows, tokens in ((1, 1024), (1, 4096)):
        off = config("bf16", rows, tokens, 1, {"cpu": {"threads": 2}})
        full = config("bf16", rows, tokens, 1, {"cpu": {"threads": 2}, "recompute": {"policy": "full"}})
        peaks = [hawser.Config(c).plan().report()["memory"]["activations"] for c in (off, full)]
        without, again = measure([off, full], [1, 1], steps)
        print(f"recompute {rows} x {tokens} bf16: {1e3 * without:.0f} ms, {1e3 * again:.0f} ms, {again / without:.3f} times the step, "
              f"activations {peaks[0] / peaks[1]:.2f} times less", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", default="pp,recompute")
    args = parser.parse_args()
    for name in args.only.split(","):
        {"pp": pipelines, "recompute": recompute}[name](args.steps)


main()
