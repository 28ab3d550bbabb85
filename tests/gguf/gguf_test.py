#!/usr/bin/env python3
"""Tests GGUF files with llama.cpp itself: it must compute the logits and find the tokens that Hawser does.

  gguf_test.py GOLDEN_TOKENIZERS [--published]

npm fetches llama.cpp (@node-llama-cpp/linux-x64), pip its reader of GGUF files (gguf). Exits with 77 (skipped) if npm
cannot. --published also compares five published vocabularies. Each model has random weights in every tensor, so that a
bias, a norm or an expert in the wrong place shows.
"""
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import hawser
import numpy

sys.path.append(str(Path(__file__).parents[1] / "harness"))
from llama_cpp import LlamaCpp  # noqa: E402
from models import MODELS, REFUSED, GPT2, LLAMA  # noqa: E402
from npm_package import fetched  # noqa: E402

LLAMA_CPP = "@node-llama-cpp/linux-x64@3.22.1"
READER = "gguf==0.19.0"
CLOSE = 1e-4  # sums in another order
GELU_TABLE = 1e-2  # llama.cpp looks GELU up in a table of f16


class Checks:
    def __init__(self):
        self.failed = 0

    def __call__(self, name, good, text):
        self.failed += not good
        print(f"{'ok    ' if good else 'FAILED'} {name}: {text}")


def close_of(model):
    return GELU_TABLE if model["mlp"] in ("gelu_tanh", "geglu") else CLOSE


def random_engine(config, numbers, only=""):
    engine = hawser.Engine({"cpu": {"threads": 1}, **config}, inference=True)
    ones = engine.info()["model"]["norm_weight_offset"] == 0
    for tensor in engine.tensors():
        name, shape = tensor["name"], tensor["shape"]
        if only not in name:
            continue
        spread = 0.4 if len(shape) == 1 else 2.0 / shape[-1] ** 0.5
        values = numbers.uniform(-spread, spread, shape) + (1.0 if ones and name.endswith("norm.weight") else 0.0)
        engine.set_tensor(name, values.astype(numpy.float32))
    return engine


def logits_of(engine, tokens):
    return numpy.array(engine.forward(numpy.array([tokens], dtype=numpy.int32)))[0]


def difference(engine, model, tokens):
    assert model.vocab_size() == engine.info()["model"]["vocab_size"]
    return float(numpy.abs(logits_of(engine, tokens) - numpy.array(model.logits(tokens))).max())


def check_models(llama, folder, numbers, check):
    for i, (name, section) in enumerate(MODELS.items()):
        length = min(33, section.get("window", 33)) if name.startswith("mistral") else 33
        tokens = numbers.integers(0, section["vocab_size"], length).tolist()
        path = folder / f"model-{i}.gguf"
        with random_engine({"model": section}, numbers) as engine:
            engine.export(path, "f32")
            with llama.open(path) as model:
                off = difference(engine, model, tokens)
                greedy = model.greedy(tokens[:5], 12)
            ours = list(engine.generate(tokens[:5], 12, temperature=0))
        check(name, off <= close_of(section), f"logits differ by {off:.2g}")
        if close_of(section) == CLOSE:
            check(name, greedy == ours, f"greedy text {greedy}, {ours}")


def check_refused(folder, check):
    for name, (section, word) in REFUSED.items():
        path = folder / "refused.gguf"
        with hawser.Engine({"model": section}, inference=True) as engine:
            try:
                engine.export(path)
                check(name, False, "was exported")
            except hawser.FailedPrecondition as error:
                check(name, word in str(error) and not path.exists(), str(error))


def check_types(llama, folder, numbers, check):
    """The numbers of each type are those of llama.cpp's own converter; logits are near."""
    tokens = numbers.integers(0, 131, 20).tolist()
    with random_engine({"model": LLAMA}, numbers) as engine:
        exact = logits_of(engine, tokens)
        for dtype, near in (("f16", 0.02), ("bf16", 0.3), ("q8_0", 0.4)):
            path = folder / f"{dtype}.gguf"
            engine.export(path, dtype)
            with llama.open(path) as model:
                off = float(numpy.abs(exact - numpy.array(model.logits(tokens))).max())
            check(dtype, 0 < off < near, f"logits differ by {off:.2g}")
            check(dtype, *same_numbers(path, engine, dtype))


def same_numbers(path, engine, dtype):
    from gguf.gguf_reader import GGUFReader
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import quantize
    names = {"blk.0.attn_v.weight": "blocks.0.attention.v.weight", "output.weight": "head.weight",
             "blk.2.ffn_down.weight": "blocks.2.mlp.down.weight", "token_embd.weight": "embedding.tokens.weight"}
    reader = GGUFReader(path)
    wrong = []
    for tensor in reader.tensors:
        vector = len(tensor.shape) == 1
        kind = GGMLQuantizationType.F32 if vector else GGMLQuantizationType[dtype.upper()]
        if tensor.tensor_type != kind:
            wrong.append(tensor.name)
        if tensor.name in names:
            ours = numpy.array(engine.tensor(names[tensor.name]))
            if not numpy.array_equal(quantize(ours, kind).view(numpy.uint8).ravel(), tensor.data.view(numpy.uint8).ravel()):
                wrong.append(tensor.name)
    heads = reader.fields["llama.attention.head_count"].contents()
    return not wrong and heads == 4, f"llama.cpp's converter writes the same bytes{' except ' + str(wrong) if wrong else ''}"


def check_adapters(llama, folder, numbers, check):
    for name, section, adapter in (
            ("adapter of llama", LLAMA, {"rank": 4, "alpha": 12.0}),
            ("adapter of llama with several ranks", LLAMA,
             {"rank": 4, "alpha": 12.0, "ranks": [{"of": "attention.q", "rank": 2}, {"of": "mlp.*", "rank": 8}], "rslora": True}),
            ("adapter of gpt2", GPT2, {"rank": 4, "alpha": 8.0})):
        base, path = folder / f"{name}-base", folder / f"{name}.gguf"
        with random_engine({"model": section}, numbers) as engine:
            engine.export(base)
            engine.export(f"{base}.gguf")
        tokens = numbers.integers(0, 131, 20).tolist()
        with random_engine({"init": {"from": str(base)}, "adapter": adapter}, numbers, "adapter") as engine:
            engine.export_adapter(path)
            with llama.open(f"{base}.gguf") as model:
                without = difference(engine, model, tokens)
                model.apply_adapter(path)
                off = difference(engine, model, tokens)
        check(name, off <= max(10 * CLOSE, close_of(section)) < without, f"logits differ by {off:.2g}, without the adapter by {without:.2g}")


def model_with(tokenizer, config, size, folder):
    """Makes a tiny model with this tokenizer.json and returns its folder."""
    section = {**LLAMA, "vocab_size": size, "layers": 1, "width": 16, "heads": 2, "kv_heads": 2, "mlp_width": 16, "head_dim": 8,
               "tied_head": True}
    with hawser.Engine({"model": section}, inference=True) as engine:
        engine.export(folder)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return folder


def check_tokens(llama, name, tokenizer, texts, folder, check):
    """llama.cpp finds the tokens of the texts that its own normalisation, which is none, leaves alone."""
    size = 3 + max([*tokenizer["model"]["vocab"].values(), *(added["id"] for added in tokenizer["added_tokens"])])
    config = {"chat_template": "{{ messages }}", "eos_token": tokenizer["added_tokens"][0]["content"]}
    path = model_with(tokenizer, config, size, folder / name.replace(" ", "-"))
    if (tokenizer["normalizer"] or {}).get("type") == "NFC":
        texts = [text for text in texts if unicodedata.normalize("NFC", text) == text]
    if tokenizer["model"]["byte_fallback"]:
        texts = [text for text in texts if "\u2581" not in text]  # the sign for a blank
    if "</s>" in tokenizer["model"]["vocab"]:
        texts = [text for text in texts if "</s>" not in text]  # llama.cpp makes such a token a special one
    wrong = []
    with hawser.Engine({"init": {"from": str(path)}}, inference=True) as engine:
        engine.export(f"{path}.gguf")
        ours = engine.tokenizer()
        with llama.open(f"{path}.gguf") as model:
            for text in texts:
                for special in (False, True):
                    expected, got = list(ours.encode(text, add_special=special)), model.tokenize(text, special)
                    if expected != got:
                        wrong.append((text, expected, got))
            kept = model.chat_template() == config["chat_template"]
    check(name, not wrong and kept and len(texts) > 90, f"{len(texts)} texts, {len(wrong)} with other tokens {wrong[:2]}")


def without_flags(tokenizer):
    """The tokenizer without the added tokens that take blanks around them, which llama.cpp's do not."""
    plain = [added for added in tokenizer["added_tokens"]
             if not (added["single_word"] or added["lstrip"] or added["rstrip"])]
    return {**tokenizer, "added_tokens": plain}


def check_vocabularies(llama, golden, folder, check):
    texts = [row["text"] for row in json.loads((golden / "gpt2/cases.json").read_text())["rows"]]
    for name in ("gpt2", "llama3", "qwen2"):
        tokenizer = json.loads((golden / name / "tokenizer.json").read_text())
        plain = without_flags(tokenizer)["added_tokens"]
        if plain != tokenizer["added_tokens"]:
            path = model_with(tokenizer, {}, 700, folder / f"{name}-flags")
            expect_refusal(path, folder / "flags.gguf", "added token", check)
        check_tokens(llama, name, {**tokenizer, "added_tokens": plain}, texts, folder, check)
    for name, word in (("llama2", "never merges"), ("mixed", "byte_fallback")):
        tokenizer = without_flags(json.loads((golden / name / "tokenizer.json").read_text()))
        expect_refusal(model_with(tokenizer, {}, 800, folder / f"{name}-refused"), folder / "no.gguf", word, check)
    other = without_flags(json.loads((golden / "llama3/tokenizer.json").read_text()))
    other["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] += "|x"
    expect_refusal(model_with(other, {}, 800, folder / "other-expression"), folder / "no.gguf", "splits text", check)
    expect_refusal(model_with(json.loads((golden / "llama3/tokenizer.json").read_text()), {}, 602, folder / "small"),
                   folder / "no.gguf", "vocabulary of 602", check)


def expect_refusal(path, target, word, check):
    with hawser.Engine({"init": {"from": str(path)}}, inference=True) as engine:
        try:
            engine.export(target)
            check(path.name, False, "was exported")
        except hawser.FailedPrecondition as error:
            check(path.name, word in str(error) and not target.exists(), str(error)[:200])


def check_own_vocabularies(llama, folder, check):
    """Vocabularies of bytes and of characters, which Hawser makes."""
    text = "The qüick brown fox\njumps — over the lazy dog. "
    (folder / "data.txt").write_text(text * 40)
    for kind in ("bytes", "characters", "bpe"):
        size = {"vocab_size": 300} if kind == "bpe" else {}
        config = {"model": {key: value for key, value in LLAMA.items() if key != "vocab_size"}, "data": {"path": str(folder / "data.txt"), "vocabulary": kind, **size},
                  "batch": {"micro_batch": 1, "sequence": 16}, "train": {"steps": 1}}
        with hawser.Engine(config) as engine:
            path = folder / f"{kind}.gguf"
            engine.export(path)
            with llama.open(path) as model:
                tokens = model.tokenize(text)
                check(kind, tokens == list(engine.encode(text)) and model.detokenize(tokens) == text, f"{len(tokens)} tokens")


def check_published(llama, golden, folder, check):
    sys.path.append(str(Path(__file__).parents[1] / "text"))
    from published_test import gpt2
    texts = [row["text"] for row in json.loads((golden / "gpt2/cases.json").read_text())["rows"]]
    for name, case in json.loads((golden / "published.json").read_text()).items():
        files = fetched(case["package"], folder / f"{name}-package")
        if files is not None:
            data = gpt2(files) if name == "gpt2" else files["models/tokenizer.json"]
            check_tokens(llama, f"published {name}", json.loads(data), texts, folder, check)


def main():
    golden, check = Path(sys.argv[1]), Checks()
    numbers = numpy.random.default_rng(7)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        files = fetched(LLAMA_CPP, folder / "package")
        pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder / "reader"), READER]
        if files is None or subprocess.run(pip, check=False).returncode != 0:
            print("skipped: llama.cpp or its reader cannot be fetched")
            sys.exit(77)
        for name, data in files.items():
            if name.startswith("bins/"):
                (folder / Path(name).name).write_bytes(data)
        sys.path.append(str(folder / "reader"))
        llama = LlamaCpp(folder)
        check_models(llama, folder, numbers, check)
        check_refused(folder, check)
        check_types(llama, folder, numbers, check)
        check_adapters(llama, folder, numbers, check)
        check_vocabularies(llama, golden, folder, check)
        check_own_vocabularies(llama, folder, check)
        if "--published" in sys.argv:
            check_published(llama, golden, folder, check)
    sys.exit(1 if check.failed else 0)


if __name__ == "__main__":
    main()
