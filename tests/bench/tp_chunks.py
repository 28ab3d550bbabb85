#!/usr/bin/env python3
"""Measures how much of the exchanges of tensor-parallel ranks is hidden behind products (/mesh/tp_chunks).

  PYTHONPATH=build/python python3 tests/bench/tp_chunks.py [--rate 2e8] [--chunks 1,2,4] [--steps 4] [--forms alone,rows]

The model is six layers of GPT-2 124M with a vocabulary of 8192, on two ranks of one thread each. Their exchanges are slowed
to --rate bytes a second (/comm/bandwidth_limit). There is one engine for each number of chunks. All engines run in one
process, on the same random tokens, and take steps in turn, so a busy machine slows all of them. Losses must be equal.
Prints for each number of chunks the median step and, from one traced step of the first rank, for how long it waited for
exchanges and for how long they ran while it computed. --forms: "alone" is without sequence parallelism, "rows" with it.
"""
import argparse
import statistics
import time

import numpy

import hawser


def engine(args, chunks, sequence_parallel):
    config = {
        "preset": "gpt2-124m",
        "model": {"layers": 6, "vocab_size": 8192, "dropout": {"embedding": 0, "attention": 0, "residual": 0}},
        "batch": {"micro_batch": 1, "grad_accum_steps": 1, "sequence": args.tokens},
        "train": {"steps": 1000},
        "schedule": {"warmup_steps": 1},
        "cpu": {"threads": 2},
        "comm": {"bandwidth_limit": args.rate},
        "mesh": {"tp": 2, "tp_chunks": chunks, "sequence_parallel": sequence_parallel},
    }
    return hawser.Engine(config, ranks=2)


def take_step(side, batch):
    side.push(batch[0], batch[1])
    begin = time.perf_counter()
    loss = side.train_step().loss
    return time.perf_counter() - begin, loss


def measure(args, sequence_parallel):
    engines = {chunks: engine(args, chunks, sequence_parallel) for chunks in args.chunks}
    rng = numpy.random.default_rng(3)
    vocabulary = engines[args.chunks[0]].sizes().vocab_size
    seconds = {chunks: [] for chunks in engines}
    for step in range(args.steps + 1):
        batch = rng.integers(0, vocabulary, (2, 1, args.tokens), dtype=numpy.int32)
        losses = set()
        for chunks, side in engines.items():
            taken, loss = take_step(side, batch)
            losses.add(loss)
            if step > 0:
                seconds[chunks].append(taken)
        assert len(losses) == 1, f"chunks change the loss: {losses}"
    for chunks, side in engines.items():
        side.set_trace("instructions")
        take_step(side, batch)
        overlap = side.trace()["otherData"]["ranks"][0]
        print(
            f"{'sequence parallel' if sequence_parallel else 'tensor parallel alone'}, {chunks} chunks: "
            f"{1e3 * statistics.median(seconds[chunks]):.0f} ms a step "
            f"({1e3 * min(seconds[chunks]):.0f} to {1e3 * max(seconds[chunks]):.0f}); exchanges awaited "
            f"{1e3 * overlap['exchanging_seconds']:.0f} ms, hidden {1e3 * overlap['beside_seconds']:.0f} ms",
            flush=True,
        )
        side.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=2e8)
    parser.add_argument("--chunks", type=lambda text: [int(n) for n in text.split(",")], default=[1, 2, 4])
    parser.add_argument("--forms", type=lambda text: text.split(","), default=["alone", "rows"])
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    for form in args.forms:
        measure(args, form == "rows")


if __name__ == "__main__":
    main()
