#!/usr/bin/env python3
"""Tests that Transformers loads the Hugging Face folders that this library writes, and computes the same logits.

Takes the shared library and the folder of golden cases. Exports every imported case, and new models made
from each family's preset with tiny sizes. Exits with 77 (skipped) if Transformers is not installed.
"""
import ctypes
import json
import pathlib
import sys
import tempfile

try:
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

COLS, TOLERANCE = 8, 1e-4


class Batch(ctypes.Structure):
    """The struct hws_batch of capi/include/hawser.h."""
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_int32), ("rows", ctypes.c_int64),
                ("cols", ctypes.c_int64), ("tokens", ctypes.c_void_p), ("targets", ctypes.c_void_p),
                ("document_begin", ctypes.c_void_p)]


class Library:
    """The calls of the C API that this test makes."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name in ("hws_status_name", "hws_error_message"):
            getattr(self.c, name).restype = ctypes.c_char_p

    def check(self, status):
        if status != 0:
            error = ctypes.c_void_p()
            self.c.hws_error_take(ctypes.byref(error))
            raise RuntimeError(f"{self.c.hws_status_name(status).decode()}: "
                               f"{self.c.hws_error_message(error).decode()}")

    def logits_and_export(self, config, vocab, tokens, folder):
        """Returns the logits [cols, vocab] of one row, and exports the model to `folder`."""
        text, handle, engine = json.dumps(config).encode(), ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.c.hws_config_parse(text, ctypes.c_size_t(len(text)), 0, ctypes.byref(handle)))
        self.check(self.c.hws_engine_create(handle, 0, ctypes.byref(engine)))
        self.c.hws_config_destroy(handle)
        row = (ctypes.c_int32 * len(tokens))(*tokens)
        batch = Batch(ctypes.sizeof(Batch), 0, 1, len(tokens), ctypes.addressof(row), None, None)
        out = (ctypes.c_float * (len(tokens) * vocab))()
        self.check(self.c.hws_engine_forward(engine, ctypes.byref(batch), out, ctypes.c_size_t(ctypes.sizeof(out))))
        self.check(self.c.hws_engine_export(engine, str(folder).encode(), b""))
        self.c.hws_engine_destroy(engine)
        return torch.tensor(list(out)).reshape(len(tokens), vocab)


def error_in_transformers(folder, tokens, ours):
    """Returns the relative error of our logits against those that Transformers computes from the folder."""
    model, report = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager", experts_implementation="eager", output_loading_info=True)
    # A model does not load its layers for multi-token prediction; Transformers expects only the published numbers.
    layers, depths = model.config.num_hidden_layers, getattr(model.config, "num_mtp_layers", 0)
    further = tuple(f"model.layers.{number}." for number in range(layers, layers + depths))
    for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if keys := [key for key in report.get(kind) or () if not str(key).startswith(further)]:
            raise RuntimeError(f"{kind} {keys}")
    with torch.no_grad():
        theirs = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return ((ours - theirs).norm() / theirs.norm()).item()


def configs(cases):
    """Yields (name, config, vocabulary) of imported models and of new models."""
    for folder in sorted(path.parent for path in cases.glob("*/case.safetensors")):
        vocab = json.loads((folder / "config.json").read_text())["vocab_size"]
        yield folder.name, {"init": {"from": str(folder)}}, vocab
    small = {"vocab_size": 37, "context": 32, "layers": 2, "width": 24, "heads": 3, "mlp_width": 40}
    for preset, more in (("gpt2-124m", {}), ("llama-2-7b", {"kv_heads": 3, "head_dim": 8}),
                         ("llama-3.2-1b", {"kv_heads": 1, "head_dim": 8}),
                         ("mistral-7b", {"kv_heads": 1, "head_dim": 8, "window": 5}),
                         ("qwen2.5-0.5b", {"kv_heads": 1, "head_dim": 8}),
                         ("qwen3-0.6b", {"kv_heads": 1, "head_dim": 10}),
                         ("gemma-2-2b", {"kv_heads": 1, "head_dim": 8, "window": 5, "window_layers": [0],
                                          "embedding_scale": 24 ** 0.5}),
                         ("gemma-3-1b", {"kv_heads": 1, "head_dim": 8, "window": 5, "window_layers": [0], "rope": {"window_theta": 50},
                                          "embedding_scale": 24 ** 0.5}),
                         ("glm-4.5-air", {"kv_heads": 1, "head_dim": 10, "rope": {"dim": 4},
                                          "moe": {"experts": 4, "top_k": 2, "width": 10, "layers": [1], "shared_width": 20}}),
                         ("gpt-oss-20b", {"kv_heads": 1, "head_dim": 10, "window": 5, "window_layers": [0],
                                          "moe": {"experts": 4, "top_k": 2, "width": 10}})):
        yield "preset " + preset, {"preset": preset, "precision": "fp32", "seed": 7, "model": small | more, "init": {"std": 0.3}}, 37


def example():
    """Returns examples/shakespeare.json, whose model has no biases; its vocabulary comes from the text."""
    config = json.loads((pathlib.Path(__file__).parents[2] / "examples/shakespeare.json").read_text())
    config["model"]["vocab_size"] = 65
    return "examples/shakespeare.json", {"seed": 7, "model": config["model"], "init": {"std": 0.3}}, 65


def main():
    library, failed = Library(sys.argv[1]), 0
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for name, config, vocab in [*configs(pathlib.Path(sys.argv[2])), example()]:
        tokens = [(7 * t + 3) % vocab for t in range(COLS)]
        config |= {"batch": {"micro_batch": 1, "sequence": COLS}}
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "exported"
            try:
                ours = library.logits_and_export(config, vocab, tokens, folder)
                error = error_in_transformers(folder, tokens, ours)
                good, text = error <= TOLERANCE, f"{error:.1e}"
            except Exception as problem:  # a failing model must not hide the results of the others
                good, text = False, f"{type(problem).__name__}: {problem}"
        failed += not good
        print(f"{'ok  ' if good else 'FAIL'} {name}: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
