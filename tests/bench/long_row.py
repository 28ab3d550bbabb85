"""Trains one row of examples/long_context.json in two layers, and compares its loss and memory.

    PYTHONPATH=build/python python3 tests/bench/long_row.py [TOKENS] [VOCABULARY]

The loss of the step, whose MLPs and head work on 8,192 tokens at a time, is compared with that of an evaluation
without /recompute/rows. The memory that is resident after the step is compared with the plan.
"""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

import numpy

import hawser

EXAMPLE = Path(__file__).parents[2] / "examples" / "long_context.json"


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def config(tokens, vocabulary, folder, rows):
    settings = json.loads(EXAMPLE.read_text())
    settings["model"].update(layers=2, vocab_size=vocabulary, context=tokens)
    settings["batch"].update(sequence=tokens, grad_accum_steps=1)
    settings["recompute"]["rows"] = rows
    settings["offload"]["folder"] = folder
    settings["precision"] = "bf16"
    return settings


def main():
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 131072
    vocabulary = int(sys.argv[2]) if len(sys.argv) > 2 else 16384
    row = numpy.random.default_rng(1).integers(0, vocabulary, (1, tokens + 1)).astype("int32")
    inputs, targets = row[:, :-1].copy(), row[:, 1:].copy()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        before = resident()
        with hawser.Engine(config(tokens, vocabulary, folder, 8192)) as engine:
            engine.push(inputs, targets)
            begin = time.perf_counter()
            trained = engine.forward_backward().loss
            seconds = time.perf_counter() - begin
            grown = resident() - before
            print(f"8192 tokens at a time: loss {trained!r} after {seconds:.0f} s; {grown / 2**30:.2f} GiB resident", flush=True)
            memory = engine.info()["memory"]
            for kind in ("planned", "high_water"):
                parts = ", ".join(f"{name} {size / 2**30:.2f}" for name, size in memory[kind].items())
                print(f"{kind}: {memory[kind + '_bytes'] / 2**30:.2f} GiB: {parts}", flush=True)
            engine.discard()
        with hawser.Engine(config(tokens, vocabulary, folder, 0)) as engine:
            begin = time.perf_counter()
            evaluated = engine.evaluate(inputs, targets)
            print(f"all tokens at once: evaluation {evaluated!r} after {time.perf_counter() - begin:.0f} s", flush=True)


if __name__ == "__main__":
    main()
