#!/usr/bin/env python3
"""Measures what gradients and weights in records (ZeRO++) save of a step's exposed communication at a set bandwidth.

  PYTHONPATH=build/python python3 tests/bench/quantized_transfers.py [--steps 5] [--bandwidth 1e9] [--layers 12]

Two ranks of stage 3, threads of this process, gather each block where it is used, and every transfer takes at least its
bytes divided by the bandwidth (/comm/bandwidth_limit). Rows are short, so that computing hides little. The exposed
seconds are those in which the compute lane waits for transfers, from traced steps. Engines take steps in turn, so that
a busy machine disturbs all. Their ratio is compared with that of the bytes of gradients and weights in the plans.
"""
import argparse
import statistics

import numpy

import hawser

RANKS = 2
VARIANTS = ({}, {"quantized_weights": "int8", "quantized_gradients": "int8"},
            {"quantized_weights": "int8", "quantized_gradients": "int4"})
TRANSFERS = ("REDUCE_GRAD", "UNSHARD")


def config(precision, zero, bandwidth, layers):
    return {
        "model": {"layers": layers, "width": 1024, "heads": 16, "vocab_size": 512, "context": 16, "position": "rotary"},
        "precision": precision,
        "batch": {"micro_batch": 1, "grad_accum_steps": 1, "sequence": 16},
        "train": {"steps": 1000},
        "mesh": {"dp_shard": RANKS},
        "zero": {"stage": 3, "prefetch": 0, **zero},
        "comm": {"bandwidth_limit": bandwidth},
        "cpu": {"threads": RANKS},
    }


def transferred(c):
    return sum(row["bytes"] for row in hawser.Config(c).plan().report()["traffic"] if row["op"] in TRANSFERS)


def exposed(configs, steps):
    """Returns the median over steps of the exposed seconds of the first rank, of each config."""
    engines = [hawser.Engine(c, ranks=RANKS) for c in configs]
    tokens = numpy.random.default_rng(3).integers(0, 512, (2, RANKS, 16), dtype=numpy.int32)
    seconds = [[] for _ in engines]
    for step in range(steps + 2):
        for i, engine in enumerate(engines):
            if step == 1:
                engine.set_trace("instructions")
            engine.push(tokens[0], tokens[1])
            engine.train_step()
            if step >= 2:
                seconds[i].append(engine.trace()["otherData"]["ranks"][0]["exposed_seconds"])
    for engine in engines:
        engine.close()
    return [statistics.median(s) for s in seconds]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--bandwidth", type=float, default=1e9)
    parser.add_argument("--layers", type=int, default=12)
    args = parser.parse_args()
    for precision in ("fp32", "bf16"):
        configs = [config(precision, zero, args.bandwidth, args.layers) for zero in VARIANTS]
        sent = [transferred(c) for c in configs]
        waited = exposed(configs, args.steps)
        for zero, bytes_, seconds in zip(VARIANTS, sent, waited):
            print(f"{precision} {zero or 'exact'}: {bytes_ / 2**20:.1f} MiB, {bytes_ / sent[0]:.4f} of exact; exposed "
                  f"{1e3 * seconds:.1f} ms, {seconds / waited[0]:.4f} of exact ({seconds / waited[0] * sent[0] / bytes_:.3f} of "
                  "the bytes' ratio)", flush=True)


if __name__ == "__main__":
    main()
