#!/usr/bin/env python3
"""Trains one model on four ranks in one process. Each rank stores a quarter of its weights, gradients and moments
(ZeRO-3). With another comm, the same config trains on one process or machine per rank, with bit-identical results.

python ranks.py BOOK.txt
"""

import argparse
import sys

import hawser


def train(text: str) -> None:
    config = hawser.Config.preset("quickstart")
    config["/data/path"] = text
    config["/train/steps"] = 20
    config["/schedule/warmup_steps"] = 5
    config["/mesh"] = {"dp_shard": 4}
    config["/zero/stage"] = 3
    config["/batch"] = {"micro_batch": 2, "global_batch": 8}

    # Under mpirun, torchrun or srun, pass comm=hawser.Comm.env() instead of ranks=4.
    with hawser.Engine(config, ranks=4) as engine:
        for step in engine.steps():
            print(f"step {step.step}: loss {step.loss!r}")  # the loss of the global batch


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Four ranks in one process train one model.")
    parser.add_argument("text", help="the text, a file")
    given = parser.parse_args()
    try:
        train(given.text)
    except hawser.Error as error:
        sys.exit(f"ranks: {error}")
