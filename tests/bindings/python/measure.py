"""Measures the package: a step compared with C, views, copies, and the import. Run it by hand, on an idle machine:

PYTHONPATH=build/python build/python-venv/bin/python tests/bindings/python/measure.py build/tests/binding_step_time
"""

import ctypes
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any, Callable

import numpy

import hawser

TOY = {
    "seed": 7,
    "cpu": {"threads": 1},
    "model": {"vocab_size": 61, "context": 8, "layers": 1, "width": 16, "heads": 2},
    "batch": {"micro_batch": 2},
    "train": {"steps": 1000000},
}
STEPS, WARM_UP, ROUNDS = 2000, 100, 5


def step_times() -> dict[str, float]:
    """Returns medians in microseconds, as binding_step_time prints them."""
    tokens = numpy.arange(16, dtype=numpy.int32).reshape(2, 8)
    targets = tokens + 1
    around, whole = [], []
    with hawser.Engine(TOY) as engine:
        for _ in range(WARM_UP + STEPS):
            begin = time.perf_counter()
            engine.push(tokens, targets)
            result = engine.train_step()
            took = time.perf_counter() - begin
            whole.append(took * 1e6)
            around.append((took - result.seconds) * 1e6)
    return {"around": statistics.median(around[WARM_UP:]), "whole": statistics.median(whole[WARM_UP:])}


def best(call: Callable[[], Any], times: int = 15) -> float:
    """Returns the seconds of the fastest of several calls."""
    spans = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        spans.append(time.perf_counter() - begin)
    return min(spans)


def tensors() -> None:
    """Measures a tensor of 64 MB: 16,384 tokens of width 1,024."""
    config = {
        "model": {"vocab_size": 16384, "context": 8, "layers": 1, "width": 1024, "heads": 8},
        "batch": {"micro_batch": 1},
    }
    with hawser.Engine(config, inference=True) as engine:
        name, shape = next((tensor["name"], tensor["shape"]) for tensor in engine.tensors() if tensor["count"] == 1 << 24)
        out = numpy.zeros(shape, numpy.float32)
        view = numpy.from_dlpack(engine.view(name))
        size = out.nbytes
        assert size == 64 << 20 and view.shape == tuple(shape)
        viewed = best(lambda: numpy.from_dlpack(engine.view(name)))
        copied = best(lambda: engine.tensor(name, out=out))
        plain = best(lambda: ctypes.memmove(out.ctypes.data, view.ctypes.data, size))
        print(f"view of 64 MB: {viewed * 1e6:.0f} us")
        print(f"copy of 64 MB: {size / copied / 1e9:.2f} GB/s, memcpy {size / plain / 1e9:.2f}, {100 * plain / copied:.0f} %")


def imports() -> None:
    """Returns the milliseconds of `import hawser` in a process of its own, which must not import NumPy. The package is
    compiled, as pip installs it."""
    code = (
        "import sys, time; begin = time.perf_counter(); import hawser; "
        "print((time.perf_counter() - begin) * 1e3); assert 'numpy' not in sys.modules"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times = [float(subprocess.check_output([sys.executable, "-c", code], env=environment)) for _ in range(16)][1:]
    print(f"import hawser: median {statistics.median(times):.1f} ms, best {min(times):.1f}")


def steps(program: pathlib.Path) -> None:
    c = [json.loads(subprocess.check_output([program, str(STEPS)])) for _ in range(ROUNDS)]
    python = [step_times() for _ in range(ROUNDS)]
    for key in ("around", "whole"):
        ours, theirs = (statistics.median(row[key] for row in rows) for rows in (python, c))
        print(f"push and step, {key}: Python {ours:.1f} us, C {theirs:.1f}: {ours - theirs:.1f} more")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    imports()
    tensors()
    steps(pathlib.Path(sys.argv[1]).absolute())
