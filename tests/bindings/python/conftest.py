"""Fixtures of the package's tests: a tiny model and its batches."""

import pathlib
import subprocess
import sys
import textwrap

import numpy
import pytest

import hawser

ROOT = pathlib.Path(__file__).parents[3]


def tiny_config(**changes):
    return {
        "seed": 7,
        "cpu": {"threads": 1},
        "model": {"vocab_size": 61, "context": 16, "layers": 2, "width": 32, "heads": 4},
        "batch": {"micro_batch": 4},
        "optimizer": {"learning_rate": 0.01},
        "train": {"steps": 8},
        **changes,
    }


def text_config(path, steps=8, **changes):
    """Returns tiny_config for training on the bytes of a file."""
    config = tiny_config(train={"steps": steps}, **changes)
    config["model"] = {**config["model"], "vocab_size": 256}
    config["data"] = {"format": "text", "vocabulary": "bytes", "path": str(path)}
    return config


def make_batch(seed=0, rows=4, cols=16, dtype="int32"):
    tokens = numpy.random.default_rng(seed).integers(0, 61, (rows, cols + 1))
    return tokens[:, :-1].astype(dtype), tokens[:, 1:].astype(dtype)


def endless():
    seed = 0
    while True:
        yield make_batch(seed)
        seed += 1


def run_python(code, *arguments, timeout=120, **options):
    """Runs code in a process of its own, and returns the result of subprocess.run."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout,
        cwd=pathlib.Path(__file__).parent,
        **options,
    )


@pytest.fixture
def engine():
    with hawser.Engine(tiny_config()) as made:
        yield made


@pytest.fixture
def text_file(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("In the beginning was the word, and the word was tokenized. " * 200)
    return path
