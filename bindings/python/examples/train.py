#!/usr/bin/env python3
"""Trains a small model from scratch on a text, continues a prompt with it, and exports it as a Hugging Face folder.

python train.py BOOK.txt MODEL
"""

import argparse
import math
import os
import sys

import hawser


def show(record: hawser.TrainRecord) -> None:
    if record.step % 20 == 0:
        print(f"step {record.step}: loss {record.loss:.3f}")
    if not math.isnan(record.validation_loss):
        print(f"validation: loss {record.validation_loss:.3f}")


def train(text: str, model: str) -> None:
    config = hawser.Config.preset("quickstart")
    config["/data/path"] = text
    config["/train"] = {"steps": 100, "eval_every": 50, "eval_batches": 4}
    with hawser.Engine(config) as engine:
        engine.train(show)
        print("The ", end="")
        for piece in engine.generate_text("The ", 60, temperature=0.8):
            print(piece, end="", flush=True)
        print()
        engine.export(model, dtype="bf16")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains a small model from nothing on a text.")
    parser.add_argument("text", help="the text, a file")
    parser.add_argument("model", help="the new folder of the trained model")
    given = parser.parse_args()
    if os.path.exists(given.model):
        parser.error(f"{given.model} exists; give a new folder")
    try:
        train(given.text, given.model)
    except hawser.Error as error:
        sys.exit(f"train: {error}")
