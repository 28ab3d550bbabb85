"""Writes tests/golden/muon/values.json: 20 steps of Muon by formulas in NumPy, independent of the engine. "exact" is
the algorithm in fp64. "torch" rounds where torch.optim.Muon (2.9) rounds: the momentum's mix to bf16, the norm to
bf16, and each result of a product and addition to bf16, with sums in fp32."""

import json
import pathlib

import numpy as np

A, B, C = 3.4445, -4.7750, 2.0315
STEPS, RATE, DECAY, MOMENTUM = 20, 0.02, 0.1, 0.95
SHAPES = ((6, 10), (24, 10), (16, 40))


def values(count, seed):
    """Numbers from -1 to 1 by a linear congruential generator; the test has the same."""
    state, out = seed, []
    for _ in range(count):
        state = (state * 1664525 + 1013904223) % 2**32
        out.append(state / 2**31 - 1)
    return np.array(out, dtype=np.float32)


def bf16(x):
    bits = np.asarray(x, dtype=np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return rounded.view(np.float32)


def orthogonal(u, rounded):
    number = bf16 if rounded else lambda x: x
    real = np.float32 if rounded else np.float64
    x = number(u.astype(real))
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = number(x / max(number(np.sqrt(np.sum(x.astype(np.float64) ** 2)).astype(real)), 1e-7))
    for _ in range(5):
        gram = number(x @ x.T)
        update = number(B * gram + C * (gram @ gram))
        x = number(A * x + update @ x)
    return (x.T if tall else x).astype(np.float64)


def scale(shape, kind):
    rows, columns = shape
    return 0.2 * np.sqrt(max(rows, columns)) if kind == "match_adamw" else np.sqrt(max(1, rows / columns))


def train(shape, kind, rounded):
    weight = values(shape[0] * shape[1], 1).reshape(shape).astype(np.float64)
    mean = np.zeros(shape)
    for step in range(STEPS):
        gradient = values(weight.size, 100 + step).reshape(shape).astype(np.float64)
        mean = MOMENTUM * mean + (1 - MOMENTUM) * gradient
        mix = (1 - MOMENTUM) * gradient + MOMENTUM * mean
        weight *= 1 - RATE * DECAY
        weight -= RATE * scale(shape, kind) * orthogonal(mix, rounded)
    return weight


def main():
    cases = []
    for shape in SHAPES:
        for kind in ("match_adamw", "spectral"):
            case = {"rows": shape[0], "columns": shape[1], "scale": kind}
            for name, rounded in (("exact", False), ("torch", True)):
                case[name] = [float(f"{w:.8g}") for w in train(shape, kind, rounded).ravel()]
            cases.append(case)
    file = pathlib.Path(__file__).parent / "muon" / "values.json"
    file.write_text(json.dumps(cases, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
