"""Measures steps with /recompute/rows beside steps without, and the memory that both plan for a long row.

    PYTHONPATH=build/python python3 tests/bench/rows.py [TOKENS] [ROWS] [STEPS]

The engines take steps in turn; the medians are printed. The model has the shape of Qwen2.5-0.5B with two layers and a
small vocabulary, so that MLPs and attention take most of the time.
"""

import statistics
import sys
import time

import numpy

import hawser

VOCABULARY = 1024


def config(tokens, recompute):
    return {
        "precision": "bf16",
        "model": {"layers": 2, "vocab_size": VOCABULARY, "context": tokens, "width": 896, "heads": 14, "kv_heads": 2,
                  "mlp_width": 4864, "norm": "rms_norm", "mlp": "swiglu", "position": "rotary"},
        "batch": {"micro_batch": 1, "grad_accum_steps": 1, "sequence": tokens},
        "recompute": recompute,
    }


def main(tokens, rows, steps):
    policies = {"off": {}, "full": {"policy": "full"}}
    for name, policy in policies.items():
        engines = [hawser.Engine(config(tokens, policy)), hawser.Engine(config(tokens, {**policy, "rows": rows}))]
        batch = numpy.random.default_rng(1).integers(0, VOCABULARY, (1, tokens + 1)).astype("int32")
        seconds, losses = [[], []], [[], []]
        for step in range(steps + 1):
            for which, engine in enumerate(engines):
                engine.push(batch[:, :-1].copy(), batch[:, 1:].copy())
                begin = time.perf_counter()
                result = engine.train_step()
                if step > 0:
                    seconds[which].append(time.perf_counter() - begin)
                losses[which].append(result.loss)
        whole, tiled = (statistics.median(s) for s in seconds)
        memory = [engine.info()["memory"]["workspace"] / 2**20 for engine in engines]
        print(f"policy {name}, {tokens} tokens: {whole:.3f} s; {rows} at a time: {tiled:.3f} s, ratio {tiled / whole:.3f}; "
              f"workspace {memory[0]:.0f} and {memory[1]:.0f} MiB; same losses: {losses[0] == losses[1]}")


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]), *(8192, 2048, 5)[len(sys.argv) - 1:])
