"""Writes tests/golden/muon/values.json: 20 steps of Muon. "exact" is the algorithm in fp64 with NumPy, "torch" is
torch.optim.Muon (PyTorch 2.15), which orthogonalises in bf16. Needs NumPy and PyTorch."""

import json
import pathlib

import numpy as np
import torch

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


def orthogonal(u):
    tall = u.shape[0] > u.shape[1]
    x = u.T if tall else u
    x = x / max(np.linalg.norm(x), 1e-7)
    for _ in range(5):
        gram = x @ x.T
        x = A * x + (B * gram + C * (gram @ gram)) @ x
    return x.T if tall else x


def scale(shape, kind):
    rows, columns = shape
    return 0.2 * np.sqrt(max(rows, columns)) if kind == "match_adamw" else np.sqrt(max(1, rows / columns))


def by_formula(shape, kind):
    weight = values(shape[0] * shape[1], 1).reshape(shape).astype(np.float64)
    mean = np.zeros(shape)
    for step in range(STEPS):
        gradient = values(weight.size, 100 + step).reshape(shape).astype(np.float64)
        mean = MOMENTUM * mean + (1 - MOMENTUM) * gradient
        mix = (1 - MOMENTUM) * gradient + MOMENTUM * mean
        weight *= 1 - RATE * DECAY
        weight -= RATE * scale(shape, kind) * orthogonal(mix)
    return weight


def by_torch(shape, kind):
    weight = torch.nn.Parameter(torch.tensor(values(shape[0] * shape[1], 1).reshape(shape)))
    adjust = {"match_adamw": "match_rms_adamw", "spectral": "original"}[kind]
    muon = torch.optim.Muon([weight], lr=RATE, weight_decay=DECAY, momentum=MOMENTUM, adjust_lr_fn=adjust)
    for step in range(STEPS):
        weight.grad = torch.tensor(values(weight.numel(), 100 + step).reshape(shape))
        muon.step()
    return weight.detach().numpy()


def main():
    cases = []
    for shape in SHAPES:
        for kind in ("match_adamw", "spectral"):
            case = {"rows": shape[0], "columns": shape[1], "scale": kind}
            for name, train in (("exact", by_formula), ("torch", by_torch)):
                case[name] = [float(f"{w:.8g}") for w in train(shape, kind).ravel()]
            cases.append(case)
    file = pathlib.Path(__file__).parent / "muon" / "values.json"
    file.write_text(json.dumps(cases, indent=None, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
