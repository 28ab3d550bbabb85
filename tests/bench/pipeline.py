#!/usr/bin/env python3
"""Measures the cost of pipeline stages, of recompute and of offload, compared with one rank of one thread.

  PYTHONPATH=build/python python3 tests/bench/pipeline.py [--only pp,recompute,offload] [--steps 5]

Both engines run in one process, on the same random tokens, and take steps in turn, so that a busy machine disturbs
both. pp prints the speedup, and its share of the schedule's ideal: p stages times the part of a step that is not
waiting, if all stages took the same time. recompute prints the step time, and the activations at the plan's peak.
offload compares the step with the longer of two times: a step without offload, and the transfer of the bytes at the
measured rate of the disk.
"""
import argparse
import concurrent.futures
import json
import mmap
import os
import statistics
import tempfile
import time

import numpy

import hawser

MICRO_BATCHES = 8
SCHEDULES = [  # each with its ideal share: units of work / makespan, in units of a chunk's forward
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
    """Returns the median seconds of a step of each config."""
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


RECOMPUTE = [
    {"policy": "selective"},
    {"policy": "selective", "arrays": ["mlp_hidden", "qkv"]},
    {"policy": "every", "every": 3},
    {"policy": "full"},
]


def activations(c):
    return hawser.Config(c).plan().report()["memory"]["activations"]


def recompute(steps):
    for rows, tokens in ((1, 1024), (1, 4096)):
        off = config("bf16", rows, tokens, 1, {"cpu": {"threads": 2}})
        for policy in RECOMPUTE:
            again = config("bf16", rows, tokens, 1, {"cpu": {"threads": 2}, "recompute": policy})
            kept, remade = measure([off, again], [1, 1], steps)
            print(f"recompute {json.dumps(policy)} {rows} x {tokens} bf16: {1e3 * kept:.0f} ms, {1e3 * remade:.0f} ms, "
                  f"{remade / kept:.3f} times the step, activations {activations(off) / activations(again):.2f} times less", flush=True)


def disk_rate(folder, size):
    """Returns the disk's write and read rates in bytes per second, without the page cache, with two threads each."""
    name = os.path.join(folder, f"hawser-bench-{os.getpid()}")
    block, step = mmap.mmap(-1, 1 << 20), 1 << 20
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.unlink(name)
    os.posix_fallocate(file, 0, size)
    rates = []
    for copy in (lambda at: os.pwrite(file, block, at), lambda at: os.preadv(file, [block], at)):
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            list(pool.map(copy, range(0, size, step)))
        rates.append(size / (time.perf_counter() - begin))
    os.close(file)
    return rates


def offload(steps):
    folder = tempfile.gettempdir()
    for rows, tokens in ((1, 1024), (1, 4096)):
        off = config("bf16", rows, tokens, 1, {"cpu": {"threads": 2}})
        away = dict(off, offload={"activations": "disk", "folder": folder})
        out, back = disk_rate(folder, 1 << 29)
        kept, moved = measure([off, away], [1, 1], steps)
        size = hawser.Config(away).plan().report()["offload"]["disk"]["bytes_per_step"]
        disk = size / out + size / back
        print(f"offload {rows} x {tokens} bf16: {1e3 * kept:.0f} ms, {1e3 * moved:.0f} ms; {size / 2**20:.0f} MiB out and back, the disk "
              f"takes {out / 2**20:.0f} and gives {back / 2**20:.0f} MiB/s: {1e3 * disk:.0f} ms; {moved / max(kept, disk):.3f} of the longer, "
              f"activations {activations(off) / activations(away):.2f} times less", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--only", default="pp,recompute,offload")
    args = parser.parse_args()
    for name in args.only.split(","):
        {"pp": pipelines, "recompute": recompute, "offload": offload}[name](args.steps)


if __name__ == "__main__":
    main()
