#!/usr/bin/env python3
"""Tests the way from text to text. A small model with its own vocabulary is trained on this project's pages and then
on the answers of a chat file, and is exported as a Hugging Face folder. If Transformers is installed, tokenizer,
logits and answers must be the same there.

  text_to_text_test.py COMMAND SOURCE_FOLDER
"""
import importlib.util
import json
import pathlib
import random
import subprocess
import sys
import tempfile

COLOURS = {"sky": "blue", "grass": "green", "snow": "white", "coal": "black"}
MODEL = {"context": 64, "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "mlp": "swiglu", "mlp_width": 160, "norm": "rms_norm",
         "position": "rotary", "bias": {"all": False}, "tied_head": True}


def run(*words):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert result.returncode == 0, f"{words}\n{result.stdout}\n{result.stderr}"
    return result.stdout


def chats(path):
    """Writes chats whose questions are random except for one word; the answers follow a rule."""
    rng = random.Random(1)
    with open(path, "w") as file:
        for _ in range(400):
            thing = rng.choice(sorted(COLOURS))
            noise = "".join(rng.choice("abcdefgh ") for _ in range(rng.randrange(2, 12)))
            messages = [{"role": "user", "content": f"{noise} {thing}?"}, {"role": "assistant", "content": f"{thing} is {COLOURS[thing]}."}]
            file.write(json.dumps({"messages": messages}) + "\n")


def compare_with_transformers(folder):
    if any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "hawser")):
        print("without transformers")
        return
    import hawser
    import numpy
    import torch
    import transformers

    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    ours = hawser.Tokenizer(folder)
    chat = [{"role": "user", "content": "ab sky?"}]
    text = theirs.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    assert ours.render(chat, add_generation_prompt=True) == text
    ids = theirs.encode(text, add_special_tokens=False)
    assert list(ours.encode(text)) == ids
    with hawser.Engine(hawser.Config.from_model(folder), inference=True) as engine, torch.no_grad():
        logits = engine.forward(numpy.array([ids], "int32"))
        expected = model(torch.tensor([ids])).logits.numpy()
    assert numpy.abs(logits - expected).max() < 1e-3, numpy.abs(logits - expected).max()
    made = model.generate(torch.tensor([ids]), max_new_tokens=20, do_sample=False, eos_token_id=ours.info()["end_tokens"])
    answer = theirs.decode(made[0, len(ids):], skip_special_tokens=True).strip()
    assert answer == "sky is blue.", answer
    print("transformers: the same ids, the same logits, the same answer")


def main():
    command, source = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        pages = [source / page for page in ("README.md", "CONTRIBUTING.md", "engine/README.md", "capi/README.md")]
        (folder / "text.txt").write_text("".join(page.read_text() for page in pages))
        (folder / "base.json").write_text(json.dumps({
            "model": MODEL, "data": {"vocabulary": "bpe", "vocab_size": 400}, "batch": {"micro_batch": 8, "sequence": 64},
            "optimizer": {"learning_rate": 0.003}, "train": {"steps": 60}}))
        run(command, "train", folder / "base.json", "--data", folder / "text.txt", "--out", folder / "base")
        chats(folder / "chat.jsonl")
        run(command, "train", folder / "base/checkpoints/step-60", "--data", folder / "chat.jsonl", "--template", "chatml", "--out", folder / "tuned",
            "--set", "/train/epochs=12", "--set", "/optimizer/learning_rate=0.003", "--set", "/batch/sequence=64")
        for thing, colour in COLOURS.items():
            answer = run(command, "chat", folder / "tuned", f"hag {thing}?", "--temperature", 0).strip()
            assert answer == f"{thing} is {colour}.", answer
        run(command, "convert", folder / "tuned", folder / "model")
        assert run(command, "chat", folder / "model", "hag coal?", "--temperature", 0).strip() == "coal is black."
        compare_with_transformers(folder / "model")


if __name__ == "__main__":
    main()
