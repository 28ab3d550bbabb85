"""Writes the prepared pairs of this folder, which tests of the bindings train on: 12 pairs of 16 tokens. Needs xxhash."""
import json
import pathlib
import random

import xxhash

PAIRS, COLUMNS, VOCABULARY = 12, 16, 61
TARGET, BEGIN = 1, 2  # marks of engine/data/prepared_folder.h

rng = random.Random(3)
tokens, marks = [], []
for _ in range(PAIRS):
    prompt = [rng.randrange(1, VOCABULARY) for _ in range(rng.randrange(2, 6))]
    for _ in range(2):
        answer = [rng.randrange(1, VOCABULARY) for _ in range(rng.randrange(1, 8))]
        unused = COLUMNS - len(prompt) - len(answer)
        tokens += prompt + answer + unused * [0]
        marks += [BEGIN] + (len(prompt) - 1) * [0] + len(answer) * [TARGET] + [BEGIN] + (unused - 1) * [0]

folder = pathlib.Path(__file__).parent
data = {"tokens": b"".join(token.to_bytes(4, "little") for token in tokens), "marks": bytes(marks)}
for name, content in data.items():
    (folder / f"{name}.bin").write_bytes(content)
digests = {f"{name}_digest": xxhash.xxh3_64_hexdigest(content) for name, content in data.items()}
manifest = {"hawser": "prepared rows", "version": 2, "rows": 2 * PAIRS, "sequence": COLUMNS, "vocabulary": VOCABULARY,
            "packed": False, "weighted": False, "tokenizer": "", "chat_template": "", "identity": "", **digests,
            "weights_digest": "", "report": None, "pairs": True}
(folder / "prepared.json").write_text(json.dumps(manifest, indent=2) + "\n")
