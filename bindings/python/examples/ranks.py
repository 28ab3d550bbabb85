#!/usr/bin/env python3
"""Four ranks in one process train one model, each holding a quarter of its weights, gradients and moments (ZeRO-3).

The same config trains with a process or a machine for each rank, with the same bits: only the comm differs.

pip install hawser && python ranks.py BOOK.txt
"""

import sys

import hawser


def train(text):
    config = hawser.Config.preset("quickstart")
    config["/data/path"] = text
    config["/train/steps"] = 20
    config["/schedule/warmup_steps"] = 5
    config["/mesh"] = {"dp_shard": 4}
    config["/zero/stage"] = 3
    config["/batch"] = {"micro_batch": 2, "global_batch": 8}
    with hawser.Engine(config, ranks=4) as engine:  # comm=hawser.Comm.env() under mpirun, torchrun or srun
        for record in engine.steps():
            print(f"step {record.step}: loss {record.loss!r}")  # of the whole batch


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print("usage: ranks TEXT", file=sys.stderr)
        sys.exit(2)
    try:
        train(sys.argv[1])
    except hawser.Error as error:
        sys.exit(f"ranks: {error}")
