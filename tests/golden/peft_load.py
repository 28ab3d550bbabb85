#!/usr/bin/env python3
"""Tests that PEFT loads the adapters that this library writes, that Transformers loads the merged models, and that both compute
the same logits as this library.

Takes the shared library and the folder of golden cases. Exports the imported adapters, and new adapters with
nonzero B. Exits with 77 (skipped) if PEFT or Transformers is not installed.
"""
import ctypes
import json
import pathlib
import sys
import tempfile

try:
    import peft
    import torch
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

from hf_transformers_load import COLS, TOLERANCE, Batch, Library, error_in_transformers


class AdapterLibrary(Library):
    """The additional calls of the C API that this test makes."""

    def fill_factors(self, engine):
        """Fills every B with unequal numbers."""
        listed = ctypes.c_void_p()
        self.check(self.c.hws_tensor_list(engine, ctypes.byref(listed)))
        self.c.hws_buffer_data.restype, self.c.hws_buffer_size.restype = ctypes.c_void_p, ctypes.c_size_t
        text = ctypes.string_at(self.c.hws_buffer_data(listed), self.c.hws_buffer_size(listed))
        self.c.hws_buffer_destroy(listed)
        for tensor in json.loads(text):
            if not tensor["name"].endswith("adapter_b.weight"):
                continue
            values = torch.sin(torch.arange(tensor["count"], dtype=torch.float32) + len(tensor["name"])) * 0.3
            data = (ctypes.c_float * tensor["count"])(*values.tolist())
            self.check(self.c.hws_tensor_set(engine, 0, tensor["name"].encode(), data, ctypes.c_size_t(ctypes.sizeof(data))))

    def logits_and_exports(self, config, vocab, tokens, folder, fill):
        text, handle, engine = json.dumps(config).encode(), ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.c.hws_config_parse(text, ctypes.c_size_t(len(text)), 0, ctypes.byref(handle)))
        self.check(self.c.hws_engine_create(handle, 0, ctypes.byref(engine)))
        self.c.hws_config_destroy(handle)
        if fill:
            self.fill_factors(engine)
        row = (ctypes.c_int32 * len(tokens))(*tokens)
        batch = Batch(ctypes.sizeof(Batch), 0, 1, len(tokens), ctypes.addressof(row), None, None)
        out = (ctypes.c_float * (len(tokens) * vocab))()
        self.check(self.c.hws_engine_forward(engine, ctypes.byref(batch), out, ctypes.c_size_t(ctypes.sizeof(out))))
        self.check(self.c.hws_engine_export(engine, str(folder / "merged").encode(), b"f32"))
        self.check(self.c.hws_engine_export_adapter(engine, str(folder / "adapter").encode()))
        self.c.hws_engine_destroy(engine)
        return torch.tensor(list(out)).reshape(len(tokens), vocab)


def error_in_peft(base, adapter, tokens, ours):
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32, attn_implementation="eager")
    model = peft.PeftModel.from_pretrained(model, adapter).eval()
    with torch.no_grad():
        theirs = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    return ((ours - theirs).norm() / theirs.norm()).item()


#: Settings of new adapters, by the case whose base they use.
NEW = {
    "adapter_llama": [{"rank": 2}, {"rank": 3, "alpha": 5, "rslora": True, "targets": ["*.o", "blocks.1.mlp.*"],
                                    "ranks": [{"of": "mlp.up", "rank": 1}], "alphas": [{"of": "blocks.1.*", "alpha": 2.5}],
                                    "train": ["final_norm.*", "head.*"]}],
    "adapter_gpt2": [{"rank": 2}, {"rank": 3, "dora": True}, {"rank": 3, "targets": ["blocks.0.attention.o", "mlp.down"], "train": ["blocks.1.mlp_norm.*"]}],
    "adapter_qwen2": [{"rank": 2, "dora": True}],
    "adapter_gemma2": [{"rank": 2, "alpha": 7, "targets": ["attention.*"], "ranks": [{"of": "blocks.0.*", "rank": 4}]}],
}


def main():
    library, failed = AdapterLibrary(sys.argv[1]), 0
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for base in sorted(path.parent for path in pathlib.Path(sys.argv[2]).glob("*/adapter")):
        vocab = json.loads((base / "config.json").read_text())["vocab_size"]
        tokens = [(7 * t + 3) % vocab for t in range(COLS)]
        for adapter in [{"from": str(base / "adapter")}, *NEW.get(base.name, [])]:
            config = {"init": {"from": str(base)}, "adapter": adapter, "batch": {"micro_batch": 1, "sequence": COLS}}
            with tempfile.TemporaryDirectory() as scratch:
                folder = pathlib.Path(scratch)
                try:
                    ours = library.logits_and_exports(config, vocab, tokens, folder, "from" not in adapter)
                    errors = error_in_peft(base, folder / "adapter", tokens, ours), error_in_transformers(folder / "merged", tokens, ours)
                    good, text = max(errors) <= TOLERANCE, f"adapter {errors[0]:.1e}, merged {errors[1]:.1e}"
                except Exception as problem:  # one failure must not hide the others
                    good, text = False, f"{type(problem).__name__}: {problem}"
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {base.name} {json.dumps({k: v for k, v in adapter.items() if k != 'from'})}: {text}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
