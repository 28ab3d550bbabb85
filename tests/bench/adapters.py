"""Measures an engine that borrows another engine's weights: its time to start, and its memory compared with its plan.

    PYTHONPATH=build/python python3 tests/bench/adapters.py [PRESET] [FOLDER]

FOLDER is the base as a Hugging Face folder. If it does not exist, it is made with random weights.
"""

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy

import hawser

ADAPTERS, ROWS, COLUMNS = 8, 1, 512


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def config(preset, folder, **more):
    batch = {"micro_batch": ROWS, "grad_accum_steps": 1, "sequence": COLUMNS}
    return {"preset": preset, "precision": "bf16", "batch": batch, "init": {"from": str(folder)}, **more}


def step(engine, vocabulary):
    tokens = numpy.random.default_rng(1).integers(0, vocabulary, (ROWS, COLUMNS + 1)).astype("int32")
    engine.push(tokens[:, :-1].copy(), tokens[:, 1:].copy())
    engine.train_step()


def measure(preset, folder):
    if not folder.exists():
        random = {"preset": preset, "batch": {"micro_batch": 1, "sequence": 16}}
        with hawser.Engine(random, inference=True) as engine:
            engine.export(folder, "bf16")
    begin = time.perf_counter()
    base = hawser.Engine(config(preset, folder), inference=True)
    print(f"the base, read from its folder: {time.perf_counter() - begin:.2f} s, {resident() / 1e9:.2f} GB resident")
    seconds, engines = [], []
    for rank in range(ADAPTERS):
        begin = time.perf_counter()
        engines.append(hawser.Engine(config(preset, folder, adapter={"rank": 16}, seed=rank), base=base))
        seconds.append(time.perf_counter() - begin)
    print(f"an adapter on it: median {statistics.median(seconds) * 1e3:.1f} ms, first {seconds[0] * 1e3:.1f} ms")
    vocabulary = engines[0].sizes().vocab_size
    step(engines[0], vocabulary)
    for engine in engines[1:]:
        before = resident()
        step(engine, vocabulary)
        grown, planned = resident() - before, sum(engine.info()["memory"].values())
    print(f"its memory: {grown / 1e6:.1f} MB more after a step, planned {planned / 1e6:.1f} MB")


if __name__ == "__main__":
    preset = sys.argv[1] if len(sys.argv) > 1 else "qwen2.5-0.5b"
    with tempfile.TemporaryDirectory() as scratch:
        measure(preset, Path(sys.argv[2]) if len(sys.argv) > 2 else Path(scratch) / "base")
