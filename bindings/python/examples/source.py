#!/usr/bin/env python3
"""Trains on data that the program generates: sums such as "17+25=42". The loss covers only the digits after "=". The
source returns each batch by its position, so training resumes where it stopped. A bar shows the progress.

python source.py CHECKPOINTS
"""

import argparse
import sys

import hawser

CONFIG = {
    "model": {"vocab_size": 128, "context": 8, "layers": 2, "width": 64, "heads": 4},
    "batch": {"micro_batch": 32},
    "optimizer": {"learning_rate": 0.003},
    "schedule": {"kind": "cosine", "warmup_steps": 20},
    "train": {"steps": 400},
}


def sum_of(sample: int) -> str:
    """Returns the text of a sample, which depends only on the sample's number."""
    random = (sample + 1) * 0x9E3779B97F4A7C15
    a, b = (random >> 32) & 31, (random >> 48) & 31
    return f"{a}+{b}={a + b};"


def fill(batch: hawser.SourceBatch) -> None:
    """Fills a batch. Tokens are characters, and only the tokens of the answer are targets."""
    for row in range(batch.rows):
        text = sum_of(batch.samples + row)[: batch.cols + 1]
        answer = text.index("=") + 1
        for t in range(len(text) - 1):
            batch.tokens[row, t] = ord(text[t])
            if t + 1 >= answer:
                batch.targets[row, t] = ord(text[t + 1])


def show_bar(at: hawser.TrainRecord) -> None:
    """Shows a bar like tqdm(engine.steps()), for a run that also saves its checkpoints."""
    done = 40 * at.step // at.total_steps
    end = "\n" if at.step == at.total_steps else ""
    bar = f"\r[{'=' * done:40}] {at.step}/{at.total_steps}  loss {at.loss:.4f} "
    print(bar, end=end, file=sys.stderr, flush=True)


def train(checkpoints: str) -> None:
    config = hawser.Config(CONFIG)
    config["/checkpoint"] = {"path": checkpoints, "every": 100}
    with hawser.Engine(config) as engine:
        try:
            engine.load_latest(checkpoints)
            print(f"goes on after step {engine.progress().step}")
        except hawser.NotFound:
            pass  # there is no checkpoint at the first start
        engine.set_source(fill)
        engine.train(show_bar)
        print(f"loss {engine.progress().loss:.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains on sums that the program makes.")
    parser.add_argument("checkpoints", help="a folder, from which another start goes on")
    given = parser.parse_args()
    try:
        train(given.checkpoints)
    except hawser.Error as error:
        sys.exit(f"source: {error}")
