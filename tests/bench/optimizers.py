"""Compares optimizers: the losses that they reach on a text, and the time of their updates.

    PYTHONPATH=build/python python3 tests/bench/optimizers.py losses TEXT [--kinds adamw muon lion adamw8] [--steps 400]
    PYTHONPATH=build/python python3 tests/bench/optimizers.py speed [--preset gpt2-124m] [--steps 10]

losses trains a model of 10.7 million parameters on the bytes of the first nine tenths of TEXT, with three learning rates for
each optimizer, and prints the loss over rows of the last tenth. Muon trains for 80 % of the steps. speed alternates steps of
an engine with adamw and one with adamw8, and prints the ratio of their speeds. It then measures the time of Muon's update
and of the matrix products in it on one rank, and the time of the update on two ranks.
"""

import argparse
import statistics
from pathlib import Path

import numpy

import hawser

MODEL = {
    "vocab_size": 256, "context": 128, "layers": 6, "width": 384, "heads": 6, "mlp_width": 1024, "norm": "rms_norm",
    "mlp": "swiglu", "position": "rotary", "tied_head": False,
}
ROWS, TOKENS, HELD_OUT = 8, 128, 16
RATES = {
    "adamw": (1e-3, 2e-3, 4e-3), "adamw8": (1e-3, 2e-3, 4e-3), "muon": (1e-3, 2e-3, 4e-3), "lion": (1e-4, 2e-4, 4e-4),
}
SHARE = {"muon": 0.8}  # of the steps of the others
UPDATE = ("MOMENTUM", "ORTHOGONALISE", "OPTIMIZER_STEP")  # instructions


def batches(data, seed, count):
    drawn = numpy.random.default_rng(seed)
    for _ in range(count):
        starts = drawn.integers(0, len(data) - TOKENS - 1, ROWS)
        rows = numpy.stack([data[s : s + TOKENS + 1] for s in starts]).astype(numpy.int32)
        yield numpy.ascontiguousarray(rows[:, :-1]), numpy.ascontiguousarray(rows[:, 1:])


def held_out_loss(data, held_out, kind, rate, steps, threads):
    config = {
        "model": MODEL,
        "batch": {"micro_batch": ROWS, "grad_accum_steps": 1, "sequence": TOKENS},
        "optimizer": {"kind": kind, "learning_rate": rate, "weight_decay": 0.1},
        "schedule": {"kind": "cosine", "warmup_steps": steps // 20, "min_learning_rate": rate / 10},
        "train": {"steps": steps},
        "cpu": {"threads": threads},
    }
    with hawser.Engine(config) as engine:
        for tokens, targets in batches(data, 2, steps):
            engine.push(tokens, targets)
            engine.train_step()
        return statistics.mean(engine.evaluate(*batch).loss for batch in held_out)


def losses(args):
    text = numpy.frombuffer(args.text.read_bytes(), numpy.uint8)
    cut = len(text) * 9 // 10
    held_out = list(batches(text[cut:], 7, HELD_OUT))
    for kind in args.kinds:
        steps = round(args.steps * SHARE.get(kind, 1))
        reached = {}
        for rate in RATES[kind]:
            reached[rate] = held_out_loss(text[:cut], held_out, kind, rate, steps, args.threads)
            print(f"{kind}, rate {rate:g}, {steps} steps: held-out loss {reached[rate]:.4f}", flush=True)
        best = min(reached, key=reached.get)
        print(f"{kind}: best loss {reached[best]:.4f}, with rate {best:g}", flush=True)


def engine_of(args, kind, threads, ranks=1):
    """Returns an engine for args.rows rows per step."""
    batch = {"micro_batch": args.rows // ranks, "grad_accum_steps": 1, "sequence": args.tokens}
    mesh = {"mesh": {"dp_shard": ranks}, "zero": {"stage": 1}} if ranks > 1 else {}
    config = {"preset": args.preset, "batch": batch, "optimizer": {"kind": kind}, "cpu": {"threads": threads}, **mesh}
    return hawser.Engine(config, ranks=ranks if ranks > 1 else None)


def step(engine, args, number):
    drawn = numpy.random.default_rng(number)
    tokens, targets = drawn.integers(0, engine.sizes().vocab_size, (2, args.rows, args.tokens)).astype("int32")
    engine.push(tokens, targets)
    return engine.train_step().seconds


def compare_steps(args):
    ratios = []
    with engine_of(args, "adamw", args.threads) as first, engine_of(args, "adamw8", args.threads) as second:
        for number in range(args.steps + 2):
            order = (first, second) if number % 2 else (second, first)
            seconds = {id(engine): step(engine, args, number) for engine in order}
            if number >= 2:  # the first steps warm up
                ratios.append(seconds[id(first)] / seconds[id(second)])
    low, high = min(ratios), max(ratios)
    print(f"adamw8: {statistics.median(ratios):.3f} of adamw's speed ({low:.3f} to {high:.3f})", flush=True)


def update_seconds(trace, rank):
    """Returns the seconds of the update in the last step of a rank."""
    events = (e for e in trace["traceEvents"] if e["ph"] == "X" and e["pid"] == rank and e["cat"] == "compute")
    return sum(e["dur"] for e in events if e["name"].split(" ")[0] in UPDATE) * 1e-6


def traced(args, kind, ranks):
    """Returns the median seconds of the slowest rank's update, and (flops, seconds) of a step's products by shape on rank 0.
    Each rank has one thread."""
    taken = []
    with engine_of(args, kind, ranks, ranks) as engine:
        engine.set_trace("kernels")
        for number in range(args.steps + 1):
            step(engine, args, number)
            if number > 0:
                trace = engine.trace()
                taken.append(max(update_seconds(trace, rank) for rank in range(ranks)))
        profile = engine.profile()["ranks"][0]
    products = {}
    for kernel in profile["kernels"]:
        if kernel["kernel"].startswith("matmul"):
            shape = tuple(kernel[key] for key in ("m", "n", "k", "a_transposed", "b_transposed"))
            flops, seconds = products.get(shape, (0, 0))
            products[shape] = flops + kernel["flops"] / profile["steps"], seconds + kernel["seconds"] / profile["steps"]
    return statistics.median(taken), products


def compare_update(args):
    _, of_model = traced(args, "adamw", 1)
    update, products = traced(args, "muon", 1)
    of_update = [both for shape, both in products.items() if shape not in of_model]
    flops, seconds = (sum(column) for column in zip(*of_update))
    model_rate = sum(f for f, _ in of_model.values()) / sum(s for _, s in of_model.values())
    print(f"muon's update, one thread: {update:.3f} s; its products {flops:.3g} flops, {seconds:.3f} s, "
          f"{flops / seconds / 1e9:.1f} GFLOP/s (those of forward and backward {model_rate / 1e9:.1f}); "
          f"update / products {update / seconds:.3f}, update / (flops at the rate of forward and backward) "
          f"{update * model_rate / flops:.3f}", flush=True)
    for ranks in args.ranks:
        divided, _ = traced(args, "muon", ranks)
        print(f"on the slowest of {ranks} ranks: {divided:.3f} s, {divided * ranks / update:.3f} / {ranks} of it", flush=True)


def speed(args):
    compare_steps(args)
    compare_update(args)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_subparsers(required=True)
    of_losses = what.add_parser("losses")
    of_losses.set_defaults(run=losses)
    of_losses.add_argument("text", type=Path)
    of_losses.add_argument("--kinds", nargs="+", choices=RATES, default=list(RATES))
    of_speed = what.add_parser("speed")
    of_speed.set_defaults(run=speed)
    of_speed.add_argument("--preset", default="gpt2-124m")
    of_speed.add_argument("--rows", type=int, default=4)
    of_speed.add_argument("--tokens", type=int, default=64)
    of_speed.add_argument("--ranks", type=int, nargs="+", default=[2])
    for parser_of, steps in ((of_losses, 400), (of_speed, 10)):
        parser_of.add_argument("--steps", type=int, default=steps)
        parser_of.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
