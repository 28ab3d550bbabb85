"""Writes tests/golden/teacher/values.json: losses and gradients of distillation by PyTorch in fp64, from its own kl_div,
log_softmax, cross_entropy and autograd."""

import json
import pathlib

import torch
from torch.nn import functional

ROWS, VOCABULARY, TOP = 4, 11, 3


def case(temperature, weight, softcap):
    torch.manual_seed(int(10 * temperature + 100 * weight + softcap))
    logits = (3 * torch.randn(ROWS, VOCABULARY, dtype=torch.float32)).double().requires_grad_()
    teacher = functional.log_softmax(2 * torch.randn(ROWS, VOCABULARY), -1)
    logprobs, ids = teacher.topk(TOP)
    targets = torch.randint(VOCABULARY, (ROWS,))
    targets[0] = ids[0, 1]
    z = softcap * torch.tanh(logits / softcap) if softcap else logits
    q = torch.zeros(ROWS, VOCABULARY, dtype=torch.float64)
    q.scatter_(1, ids, functional.softmax(logprobs.double() / temperature, -1))
    divergence = functional.kl_div(functional.log_softmax(z / temperature, -1), q, reduction="none").sum(-1)
    entropy = functional.cross_entropy(z, targets, reduction="none")
    losses = (1 - weight) * entropy + weight * temperature**2 * divergence
    losses.sum().backward()
    return {
        "temperature": temperature,
        "weight": weight,
        "softcap": softcap,
        "logits": logits.flatten().tolist(),
        "targets": targets.tolist(),
        "ids": ids.flatten().tolist(),
        "logprobs": logprobs.flatten().tolist(),
        "losses": losses.tolist(),
        "gradients": logits.grad.flatten().tolist(),
    }


if __name__ == "__main__":
    cases = [case(t, w, c) for t in (1.0, 2.0, 0.5) for w in (1.0, 0.25) for c in (0.0, 4.0)]
    values = {"rows": ROWS, "vocabulary": VOCABULARY, "top": TOP, "cases": cases}
    path = pathlib.Path(__file__).parent / "teacher" / "values.json"
    path.write_text(json.dumps(values) + "\n")
