#!/usr/bin/env python3
"""Fine-tunes a Hugging Face folder on pairs of prompt and answer, and writes it back as a Hugging Face folder.

python finetune.py MODEL PAIRS OUT

PAIRS contains token ids of the model's own tokenizer, one pair per line: "15 496 11 | 318 13". The loss covers only
the answers; the positions of the prompts are masked. Training can resume from OUT/checkpoint bit for bit
(Engine.load). Transformers can load OUT/model. Needs NumPy.
"""

import argparse
import pathlib
import sys
from collections.abc import Iterator

import hawser
import numpy as np

STEPS = 60
Pair = tuple[list[int], list[int]]  # prompt and answer


def read_pairs(path: str) -> list[Pair]:
    pairs = []
    for line in pathlib.Path(path).read_text().splitlines():
        try:
            prompt, answer = ([int(word) for word in half.split()] for half in line.split("|"))
        except ValueError:
            prompt = answer = []
        if not prompt or not answer:
            raise ValueError(f'{path}: "{line}" is not of the form: ids | ids')
        pairs.append((prompt, answer))
    if not pairs:
        raise ValueError(f"{path} holds no pairs")
    return pairs


def batches(pairs: list[Pair], sizes: hawser.Sizes) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields batches. Position t sees tokens[0..t] and predicts tokens[t + 1]. Targets of -100 are masked."""
    row = 0
    while True:
        tokens = np.zeros((sizes.global_batch, sizes.sequence), np.int32)
        targets = np.full_like(tokens, -100)
        for at in range(sizes.global_batch):
            prompt, answer = pairs[row % len(pairs)]
            whole = prompt + answer
            tokens[at, : len(whole)] = whole
            targets[at, len(prompt) - 1 : len(whole) - 1] = answer
            row += 1
        yield tokens, targets


def finetune(model: str, pairs: list[Pair], out: pathlib.Path) -> None:
    config = hawser.Config.from_model(model)  # sets model and weights; the fields below set how to train
    config["/batch"] = {
        "sequence": max(len(prompt) + len(answer) for prompt, answer in pairs),
        "micro_batch": 4,
        "grad_accum_steps": 2,
    }
    config["/optimizer/learning_rate"] = 0.001
    config["/schedule"] = {"kind": "linear", "warmup_steps": 5}
    config["/train/steps"] = STEPS
    with hawser.Engine(config) as engine:
        engine.set_source(batches(pairs, engine.sizes()))
        for step in engine.steps():
            if step.step % 10 == 1 or step.step == STEPS:
                rate = f"learning rate {step.learning_rate:.1e}"
                print(f"step {step.step:2}: loss {step.loss:.4f} over {step.tokens} answer tokens, {rate}")
        out.mkdir(parents=True)
        engine.save(out / "checkpoint")
        engine.export(out / "model")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Fine-tunes a Hugging Face folder on pairs of prompt and answer.")
    parser.add_argument("model", help="a Hugging Face folder")
    parser.add_argument("pairs", help="token ids, a line such as 15 496 | 318 13 for each pair")
    parser.add_argument("out", type=pathlib.Path, help="the new folder of the results")
    given = parser.parse_args()
    if given.out.exists():
        parser.error(f"{given.out} exists; give a new folder")
    try:
        finetune(given.model, read_pairs(given.pairs), given.out)
    except (hawser.Error, ValueError, OSError) as error:
        sys.exit(f"finetune: {error}")
