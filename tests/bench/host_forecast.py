#!/usr/bin/env python3
"""Compares predicted steps with measured steps of two CPU ranks of one thread each.

  hawser device --threads 1 --measure host.json
  PYTHONPATH=build/python python3 tests/bench/host_forecast.py build/hawser host.json [--steps 6] [--only NAME,NAME]

The table has the rates of one rank's kernels. The transfers of both the run and the prediction have the bandwidth that
--bandwidth sets. Steps of a layout and of one rank take turns, and each time is the shortest of its steps. For each layout the
program prints both measured times in milliseconds, the predicted time, the error of the prediction, and its error relative
to that of one rank, which leaves out how fast the machine is at the moment. At the end it prints the median and worst of both
errors, and the rank correlation of predicted and measured times.
"""
import argparse
import json
import os
import statistics
import subprocess
import tempfile
import time

import numpy

import hawser

BASE = {
    "device": "cpu",
    "model": {"layers": 4, "heads": 4, "width": 256, "vocab_size": 4096, "context": 256,
              "dropout": {"embedding": 0, "attention": 0, "residual": 0}},
    "batch": {"global_batch": 16, "micro_batch": 2, "sequence": 256},
    "train": {"steps": 1000},
    "cpu": {"threads": 2},
}
PIPELINE = {"pp": 2}
LAYOUTS = {
    "ddp": {"mesh": {"dp_shard": 2}, "zero": {"stage": 0}},
    "zero 1": {"mesh": {"dp_shard": 2}, "zero": {"stage": 1}},
    "zero 2": {"mesh": {"dp_shard": 2}, "zero": {"stage": 2}},
    "zero 3": {"mesh": {"dp_shard": 2}, "zero": {"stage": 3}},
    "tp": {"mesh": {"tp": 2}},
    "cp": {"mesh": {"cp": 2}},
    "1f1b": {"mesh": PIPELINE, "pipeline": {"schedule": "1f1b"}},
    "gpipe": {"mesh": PIPELINE, "pipeline": {"schedule": "gpipe"}},
    "interleaved": {"mesh": PIPELINE, "pipeline": {"schedule": "interleaved", "chunks": 2}},
    "zb_h1": {"mesh": PIPELINE, "pipeline": {"schedule": "zb_h1"}},
    "zbv": {"mesh": PIPELINE, "pipeline": {"schedule": "zbv"}},
    "zero 1 recomputed": {"mesh": {"dp_shard": 2}, "zero": {"stage": 1}, "recompute": {"policy": "full"}},
    "1f1b recomputed": {"mesh": PIPELINE, "recompute": {"policy": "full"}},
}


def merged(config, more):
    result = dict(config)
    for key, value in more.items():
        result[key] = merged(result.get(key, {}), value) if isinstance(value, dict) else value
    return result


def measured(configs, steps):
    """Returns the shortest seconds of a step of each config, because other programs may use the machine."""
    batch = configs[0]["batch"]
    shape = (2, batch["global_batch"], batch["sequence"])
    tokens = numpy.random.default_rng(3).integers(0, BASE["model"]["vocab_size"], shape, dtype=numpy.int32)
    engines = [hawser.Engine(c, ranks=2 if "mesh" in c else None) for c in configs]
    seconds = [[] for _ in engines]
    for _ in range(steps + 2):
        for engine, of_engine in zip(engines, seconds):
            engine.push(tokens[0], tokens[1])
            begin = time.perf_counter()
            engine.train_step()
            of_engine.append(time.perf_counter() - begin)
    for engine in engines:
        engine.close()
    return [min(s[2:]) for s in seconds]


def predicted(program, config, table):
    """Returns the seconds of a step on the devices of the table."""
    with tempfile.TemporaryDirectory() as folder:
        names = [os.path.join(folder, name) for name in ("config.json", "table.json")]
        for name, content in zip(names, (config, table)):
            with open(name, "w") as file:
                json.dump(content, file)
        command = [program, "plan", names[0], "--cluster", names[1], "--json"]
        plan = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return plan["foretold"]["seconds"]


def ranks_of(values):
    return [sorted(values).index(value) for value in values]


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("hawser")
    arguments.add_argument("table")
    arguments.add_argument("--steps", type=int, default=6)
    arguments.add_argument("--bandwidth", type=float, default=5e8)
    arguments.add_argument("--only", default=",".join(LAYOUTS), type=str)
    a = arguments.parse_args()
    with open(a.table) as file:
        table = json.load(file)
    table["network"][0]["bytes_per_second"] = {"value": a.bandwidth, "source": "/comm/bandwidth_limit"}
    one = merged(BASE, {"cpu": {"threads": 1}})
    said_one = predicted(a.hawser, one, table)
    rows = []
    for name, layout in LAYOUTS.items():
        if name not in a.only.split(","):
            continue
        config = merged(merged(BASE, layout), {"comm": {"bandwidth_limit": a.bandwidth}})
        took, took_one = measured([config, one], a.steps)
        said = predicted(a.hawser, config, table)
        error, relative = said / took - 1, said / took * took_one / said_one - 1
        rows.append((took, said, abs(error), abs(relative)))
        print(f"| {name} | {1e3 * took:.0f} | {1e3 * took_one:.0f} | {1e3 * said:.0f} | {100 * error:+.1f} % | "
              f"{100 * relative:+.1f} % |", flush=True)
    for what, column in ("error", 2), ("relative error", 3):
        values = [100 * row[column] for row in rows]
        print(f"{what}: median {statistics.median(values):.1f} %, worst {max(values):.1f} %")
    print(f"one rank: predicted {1e3 * said_one:.0f} ms")
    if len(rows) > 2:
        took, said = ranks_of([row[0] for row in rows]), ranks_of([row[1] for row in rows])
        print(f"rank correlation {numpy.corrcoef(took, said)[0, 1]:.3f}")


if __name__ == "__main__":
    main()
