#!/usr/bin/env python3
"""Trains a small model from nothing on a text, continues a prompt with it, and keeps it as a Hugging Face folder.

pip install hawser && python train.py BOOK.txt MODEL
"""

import math
import sys

import hawser


def show(record):
    if record.step % 20 == 0:
        print(f"step {record.step}: loss {record.loss:.3f}")
    if not math.isnan(record.validation_loss):
        print(f"validation: loss {record.validation_loss:.3f}")


def train(text, model):
    config = hawser.Config.preset("quickstart")
    config["/data/path"] = text
    config["/train"] = {"steps": 100, "eval_every": 50, "eval_batches": 4}
    with hawser.Engine(config) as engine:
        engine.train(show)
        print("The ", *engine.generate_text("The ", 60, temperature=0.8), sep="")
        engine.export(model, "bf16")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        print("usage: train TEXT MODEL", file=sys.stderr)
        sys.exit(2)
    try:
        train(*sys.argv[1:])
    except hawser.Error as error:
        sys.exit(f"train: {error}")
