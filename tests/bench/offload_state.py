#!/usr/bin/env python3
"""Measures what it costs to keep the optimizer's state, or also the weights, of GPT-2 124M on disk.

  PYTHONPATH=build/python python3 tests/bench/offload_state.py [--steps 5] [--folder DIR] [--beyond | --hidden]

Engines run in one process on the same random tokens and take steps in turn, so that a busy machine disturbs all. The
step is compared with forward and backward of the engine that keeps all in memory, plus the longer of two times: its
update, and the transfer of the state's bytes in both directions at once at the rate of the disk, measured in the same
run. Weights are fetched while other blocks compute, so their step is compared with the longer of the step and the
transfer of all their bytes.

--beyond trains a deep model, with optimizer and parameters on disk, in a process whose memory (RLIMIT_DATA), beyond
that of Python, is a quarter of the weights, gradients and optimizer's state. The limit of its step is the fetches of
forward and backward at the rate at which the disk is read, and the bytes of the update in both directions at once.

--hidden traces steps with optimizer and parameters on disk: how long the weights of forward and backward are fetched,
and how long blocks wait for them. The first fetch has nothing to hide behind.
"""
import argparse
import concurrent.futures
import mmap
import os
import resource
import statistics
import tempfile
import time

import numpy

import hawser
from pipeline import config


def fastest(copy, size):
    """Returns the better rate of two rounds in which four threads copy `size` bytes together."""
    rates = []
    for _ in range(2):
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(copy, range(4)))
        rates.append(size / (time.perf_counter() - begin))
    return max(rates)


def both_ways(folder, size):
    """Returns the bytes per second that the disk takes and gives at once, without the page cache."""
    name = os.path.join(folder, f"hawser-bench-{os.getpid()}")
    step = 1 << 20
    blocks = [mmap.mmap(-1, step) for _ in range(4)]
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.unlink(name)
    os.posix_fallocate(file, 0, 2 * size)
    for at in range(0, 2 * size, step):  # a part that was never written is read without the disk
        os.pwrite(file, blocks[0], at)

    def copy(thread):
        for at in range(thread // 2 * step, size, 2 * step):
            if thread % 2:
                os.preadv(file, [blocks[thread]], size + at)
            else:
                os.pwrite(file, blocks[thread], at)

    rate = fastest(copy, size)
    os.close(file)
    return rate


def measure(configs, steps, words=50257):
    """Returns for each config the median seconds of forward and backward, of the update, and of a step."""
    engines = [hawser.Engine(c) for c in configs]
    batch = configs[0]["batch"]
    rows = batch["micro_batch"] * batch["grad_accum_steps"]
    tokens = numpy.random.default_rng(3).integers(0, words, (2, rows, batch["sequence"]), dtype=numpy.int32)
    seconds = [([], [], []) for _ in engines]
    for step in range(steps + 2):
        order = range(len(engines)) if step % 2 == 0 else reversed(range(len(engines)))
        for i in order:
            engines[i].push(tokens[0], tokens[1])
            begin = time.perf_counter()
            engines[i].forward_backward()
            middle = time.perf_counter()
            engines[i].commit()
            end = time.perf_counter()
            if step >= 2:
                for kept, value in zip(seconds[i], (middle - begin, end - middle, end - begin)):
                    kept.append(value)
    for engine in engines:
        engine.close()
    return [[statistics.median(s) for s in of] for of in seconds]


def read_only(folder, size):
    """Returns the bytes per second that the disk gives, without the page cache."""
    name = os.path.join(folder, f"hawser-bench-{os.getpid()}")
    step = 1 << 20
    blocks = [mmap.mmap(-1, step) for _ in range(4)]
    file = os.open(name, os.O_RDWR | os.O_CREAT | os.O_DIRECT)
    os.unlink(name)
    for at in range(0, size, step):
        os.pwrite(file, blocks[0], at)

    def copy(thread):
        for at in range(thread * step, size, 4 * step):
            os.preadv(file, [blocks[thread]], at)

    rate = fastest(copy, size)
    os.close(file)
    return rate


def beyond_memory(folder, steps):
    kept = {
        "model": {"layers": 256, "width": 384, "heads": 6, "vocab_size": 4096, "context": 16, "position": "rotary"},
        "precision": "bf16",
        "batch": {"micro_batch": 1, "grad_accum_steps": 1, "sequence": 16},
        "train": {"steps": 1000},
        "cpu": {"threads": os.cpu_count()},
    }
    away = dict(kept, offload={"optimizer": "disk", "parameters": "disk", "folder": folder})
    memory = hawser.Config(kept).plan().report()["memory"]
    state = memory["weights"] + memory["gradients"] + memory["optimizer"]
    report = hawser.Config(away).plan().report()
    arena = report["total_bytes"]
    with open("/proc/self/status") as status:
        python = 1024 * next(int(line.split()[1]) for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (python + state // 4, python + state // 4))
    try:
        hawser.Engine(kept).close()
        raise SystemExit("the whole state fits into a quarter of its bytes")
    except hawser.Error as error:
        print(f"all in memory: {str(error).splitlines()[0]}")
    both, read = both_ways(folder, 1 << 29), read_only(folder, 1 << 30)
    (forward, update, step), = measure([away], steps, 4096)
    disk = report["offload"]["disk"]
    moved = disk["bytes_per_step"]  # by the update, each way
    fetched = disk["bytes_back_per_step"] - moved
    first, second = fetched / read, moved / both
    print(f"state {state / 2**20:.0f} MiB, memory {state / 2**22:.0f} MiB, arena {arena / 2**20:.0f} MiB: forward and backward "
          f"{1e3 * forward:.0f} ms, limit {1e3 * first:.0f} ms ({fetched / 2**20:.0f} MiB at {read / 2**20:.0f} MiB/s); update "
          f"{1e3 * update:.0f} ms, limit {1e3 * second:.0f} ms ({moved / 2**20:.0f} MiB each way at "
          f"{both / 2**20:.0f} MiB/s); step {1e3 * step:.0f} ms, {(first + second) / step:.3f} of the disk's rate")


def hidden(folder, steps):
    for precision in ("fp32", "bf16"):
        away = config(precision, 1, 1024, 1, {"cpu": {"threads": os.cpu_count()}})
        away["offload"] = {"optimizer": "disk", "parameters": "disk", "folder": folder}
        tokens = numpy.random.default_rng(3).integers(0, 50257, (2, 1, 1024), dtype=numpy.int32)
        rows = []
        with hawser.Engine(away) as engine:
            for step in range(steps + 1):
                engine.push(tokens[0], tokens[1])
                engine.set_trace("instructions")
                engine.train_step()
                events = engine.trace()["traceEvents"]
                lanes = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
                timed = [e for e in events if e["ph"] == "X"]
                half = min(e["ts"] for e in timed if e["name"].startswith("OPTIMIZER_STEP"))
                fetches = [e["dur"] for e in timed if lanes[e["tid"]] == "fetch_weights" and e["ts"] < half]
                waits = [e["dur"] for e in timed if e["name"].startswith("wait: ") and e["ts"] < half
                         and e["name"].split()[1] in ("FORWARD", "LOSS", "BACKWARD")]
                if step > 0:  # the first step writes the state
                    rows.append((sum(fetches) / 1e3, fetches[0] / 1e3, sum(waits) / 1e3))
        all_of, first, waited = (statistics.median(column) for column in zip(*rows))
        print(f"{precision} 1 x 1024: weights of forward and backward are fetched for {all_of:.0f} ms, {first:.0f} ms of it before "
              f"the first block; blocks wait {waited:.0f} ms: {(all_of - waited) / (all_of - first):.3f} of what "
              f"computing can hide is hidden", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--folder", default=tempfile.gettempdir())
    parser.add_argument("--beyond", action="store_true")
    parser.add_argument("--hidden", action="store_true")
    args = parser.parse_args()
    if args.beyond:
        return beyond_memory(args.folder, args.steps)
    if args.hidden:
        return hidden(args.folder, args.steps)
    for precision in ("fp32", "bf16"):
        kept = config(precision, 1, 1024, 1, {"cpu": {"threads": os.cpu_count()}})
        state = dict(kept, offload={"optimizer": "disk", "folder": args.folder})
        weights = dict(kept, offload={"optimizer": "disk", "parameters": "disk", "folder": args.folder})
        reports = [hawser.Config(c).plan().report() for c in (kept, state, weights)]
        rate = both_ways(args.folder, 1 << 29)
        (forward, update, step), (_, _, away), (_, _, all_away) = measure([kept, state, weights], args.steps)
        moved = reports[1]["offload"]["disk"]["bytes_per_step"]
        limit = forward + max(update, moved / rate)
        back = reports[2]["offload"]["disk"]["bytes_back_per_step"]
        print(f"{precision} 1 x 1024: forward and backward {1e3 * forward:.0f} ms, update {1e3 * update:.0f} ms; state on disk: step "
              f"{1e3 * away:.0f} ms, {away / limit:.3f} of the limit {1e3 * limit:.0f} ms ({moved / 2**20:.0f} MiB each way at "
              f"{rate / 2**20:.0f} MiB/s); weights too: step {1e3 * all_away:.0f} ms, {back / 2**20:.0f} MiB come back, "
              f"{all_away / max(limit, back / rate):.3f} of the longer; arena {reports[0]['total_bytes'] / 2**20:.0f}, "
              f"{reports[1]['total_bytes'] / 2**20:.0f}, {reports[2]['total_bytes'] / 2**20:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
