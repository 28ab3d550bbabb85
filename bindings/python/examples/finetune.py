#!/usr/bin/env python3
"""Fine-tunes a Hugging Face folder on pairs of prompt and answer, and writes it back as a Hugging Face folder.

PAIRS holds token ids from the model's own tokenizer, one pair a line: "15 496 11 | 318 13". The model learns to give the
answer: positions of the prompt are masked and have no loss. Training can resume from OUT/checkpoint bit for bit
(Engine.load). Transformers can load OUT/model.

pip install hawser numpy && python finetune.py MODEL PAIRS OUT
"""

import pathlib
import sys

import numpy

import hawser


def read_pairs(path):
    pairs = []
    for line in pathlib.Path(path).read_text().splitlines():
        try:
            prompt, answer = ([int(word) for word in part.split()] for part in line.split("|"))
        except ValueError:
            prompt = answer = []
        if not prompt or not answer:
            sys.exit(f'finetune: {path}: "{line}" is not of the form: ids | ids')
        pairs.append((prompt, answer))
    if not pairs:
        sys.exit(f"finetune: {path} holds no pairs")
    return pairs


def batches(pairs, rows, cols):
    """Endless batches. Position t sees tokens[0..t] and predicts tokens[t + 1]; targets of -100 have no loss."""
    at = 0
    while True:
        tokens = numpy.zeros((rows, cols), "int32")
        targets = numpy.full((rows, cols), -100, "int32")
        for row in range(rows):
            prompt, answer = pairs[at % len(pairs)]
            both = prompt + answer
            tokens[row, : len(both)] = both
            targets[row, len(prompt) - 1 : len(both) - 1] = answer
            at += 1
        yield tokens, targets


def finetune(model, pairs, out):
    config = hawser.Config.from_model(model)  # model and weights; the rest says how to train
    config["/batch/sequence"] = max(len(prompt) + len(answer) for prompt, answer in pairs)
    config["/batch/micro_batch"] = 4
    config["/batch/grad_accum_steps"] = 2
    config["/optimizer/learning_rate"] = 0.001
    config["/schedule"] = {"kind": "linear", "warmup_steps": 5}
    config["/train/steps"] = 60
    with hawser.Engine(config) as engine:
        sizes = engine.sizes()
        engine.set_source(batches(pairs, sizes.global_batch, sizes.sequence))
        for record in engine.steps():
            if record.step % 10 == 1 or record.step == 60:
                print(
                    f"step {record.step:2}: loss {record.loss:.4f} over {record.tokens} answer tokens, "
                    f"learning rate {record.learning_rate:.1e}"
                )
        pathlib.Path(out).mkdir(parents=True, exist_ok=True)
        engine.save(pathlib.Path(out, "checkpoint"))
        engine.export(pathlib.Path(out, "model"))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        print("usage: finetune MODEL PAIRS OUT", file=sys.stderr)
        sys.exit(2)
    try:
        finetune(sys.argv[1], read_pairs(sys.argv[2]), sys.argv[3])
    except (hawser.Error, OSError) as error:
        sys.exit(f"finetune: {error}")
