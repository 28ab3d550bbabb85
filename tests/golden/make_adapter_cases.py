#!/usr/bin/env python3
"""Makes the golden cases of adapters: PEFT's results for a tiny model that Transformers computes in float64.

    venv/bin/pip install torch transformers peft safetensors numpy
    venv/bin/python tests/golden/make_adapter_cases.py [--out tests/golden/cases] [CASE ...]

A case has the files of make_cases.py and a folder `adapter`, as PEFT saves it. Its B is not zero, so that no gradient
is zero. README.md describes the additional contents of case.safetensors.
"""
import argparse
import contextlib
import dataclasses
import math
import pathlib
import shutil

import peft
import torch
import transformers
from torch.nn.functional import cross_entropy

from golden_model import MASKED, lively_weights, model_of, save
from make_cases import Case, batches, error_json, gpt2, no_rounding_to_float32, rotary_model

ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


@dataclasses.dataclass
class AdapterCase(Case):
    settings: dict = dataclasses.field(default_factory=dict)
    adapter_dtype: torch.dtype = torch.float32


def cases():
    return {
        # every linear layer, stored as bfloat16 like the base
        "adapter_llama": AdapterCase(
            rotary_model("Llama", tie_word_embeddings=False), 11, stored=torch.bfloat16, adapter_dtype=torch.bfloat16,
            settings=dict(r=3, lora_alpha=6, target_modules=ALL)),
        # q, k and v under one A; ranks and alphas by the ends of paths and by a complete path; a norm trained
        # in full
        "adapter_gpt2": AdapterCase(
            gpt2(), 12,
            settings=dict(r=4, lora_alpha=6, target_modules=["attn.c_attn", "mlp.c_proj"], fan_in_fan_out=True,
                          use_rslora=True, rank_pattern={"transformer.h.1.attn.c_attn": 3},
                          alpha_pattern={"c_proj": 2, "h.1.attn.c_attn": 4}, modules_to_save=["ln_f"])),
        # some layers; an expression as a pattern; one key/value head; the head trained in full
        "adapter_mistral": AdapterCase(
            rotary_model("Mistral", num_hidden_layers=3, num_key_value_heads=1, sliding_window=5, head_dim=8,
                         tie_word_embeddings=False), 11,
            settings=dict(r=2, lora_alpha=2, target_modules=["q_proj", "v_proj", "up_proj"], layers_to_transform=[0, 2],
                          rank_pattern={r"layers\.2\..*": 1}, modules_to_save=["lm_head"])),
        # one expression over complete paths; biases and a tied head that stay
        "adapter_qwen2": AdapterCase(
            rotary_model("Qwen2", tie_word_embeddings=True, use_sliding_window=False), 11,
            settings=dict(r=2, lora_alpha=5, target_modules=r".*layers\.\d+\.(?:self_attn\.(q|k)_proj|mlp\.gate_proj)")),
        # post-norms and soft caps; modules by complete paths
        "adapter_gemma2": AdapterCase(
            rotary_model("Gemma2", head_dim=4, sliding_window=5, query_pre_attn_scalar=4, tie_word_embeddings=True), 10,
            settings=dict(r=2, lora_alpha=3, target_modules=["model.layers.0.self_attn.o_proj",
                                                             "model.layers.1.mlp.down_proj", "k_proj"])),
        # magnitudes (DoRA): of q, k and v together, and of modules with other ranks; biases, which stay
        # unchanged
        "adapter_dora": AdapterCase(
            gpt2(), 13,
            settings=dict(r=3, lora_alpha=5, target_modules=["attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj"],
                          fan_in_fan_out=True, use_dora=True, use_rslora=True, rank_pattern={"mlp.c_proj": 2},
                          alpha_pattern={"h.1.attn.c_attn": 2})),
    }


def trained(model):
    """Yields (name as in adapter_model.safetensors, parameter) for all trained parameters."""
    for name, p in model.named_parameters():
        if p.requires_grad:
            name = name.replace(".modules_to_save.default", "").replace("_vector.default.weight", "_vector")
            yield name.replace(".default", ""), p


def train(model, ids, labels, autocast=contextlib.nullcontext):
    """Returns base logits, trains only the trainable parameters, then adds the final logits and the merged weights."""
    own = dict(trained(model))
    optimizer = torch.optim.AdamW([{"params": [p for p in own.values() if p.dim() > 1], "weight_decay": 0.1},
                                   {"params": [p for p in own.values() if p.dim() == 1], "weight_decay": 0.0}],
                                  lr=2e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False)

    def logits_of(step):
        with autocast():
            return model(input_ids=ids[step], use_cache=False).logits
    values, losses, norms = {}, [], []
    with torch.no_grad(), model.disable_adapter():
        values["base_logits"] = logits_of(0)
    for step in range(len(ids)):
        optimizer.zero_grad()
        logits = logits_of(step)
        loss = cross_entropy(logits[:, :-1].flatten(0, 1).to(torch.promote_types(logits.dtype, torch.float32)),
                             labels[step][:, 1:].flatten(), ignore_index=MASKED)
        loss.backward()
        if step == 0:
            values["logits"] = logits.detach().clone()
            values |= {"grad." + name: p.grad.detach().clone() for name, p in own.items()}
        norms.append(torch.nn.utils.clip_grad_norm_(list(own.values()), 1.0).item())
        losses.append(loss.item())
        optimizer.step()
    values["losses"], values["grad_norms"] = (torch.tensor(x, dtype=torch.float64) for x in (losses, norms))
    values |= {"after." + name: p.detach().clone() for name, p in own.items()}
    with torch.no_grad():
        values["after_logits"] = logits_of(0)
    before = {name.replace(".base_layer", "").replace(".original_module", ""): p.detach().clone()
              for name, p in model.get_base_model().named_parameters()
              if "lora_" not in name and ".modules_to_save." not in name}
    values |= {"merged." + name: p.detach().clone() for name, p in model.merge_and_unload().named_parameters()
               if not torch.equal(before[name], p.detach())}
    return {name: value.double() for name, value in values.items()}


def make(folder, case, seed):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    model = lively_weights(case.config, seed).model.to(case.stored)
    weights = model.state_dict()
    model.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    lora = peft.LoraConfig(task_type="CAUSAL_LM", lora_dropout=0.0, bias="none", **case.settings)
    ids, labels = batches(case, seed)

    def base(dtype):
        model = model_of(case.config, dtype).model
        model.load_state_dict(weights)
        model.tie_weights()
        return model
    first = peft.get_peft_model(base(torch.float32), lora)
    generator = torch.Generator().manual_seed(seed + 7)
    with torch.no_grad():
        for name, p in trained(first):
            noise = torch.randn(p.shape, generator=generator)
            if "magnitude" in name:
                p.mul_(1 + 0.1 * noise)
            else:
                p.copy_(noise * (0.6 / math.sqrt(p.shape[-1])) if "lora_" in name else p + 0.05 * noise)
    first.to(case.adapter_dtype).save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink(missing_ok=True)
    stored = {name: p.detach().clone() for name, p in trained(first)}

    def adapted(dtype):
        model = peft.get_peft_model(base(dtype), lora).train()
        for name, p in trained(model):
            p.data = stored[name].to(dtype, copy=True)
        return model
    with no_rounding_to_float32():
        truth = train(adapted(torch.float64), ids, labels)
    single = train(adapted(torch.float32), ids, labels)
    half = train(adapted(torch.float32), ids, labels, lambda: torch.autocast("cpu", torch.bfloat16))
    save({"input_ids": ids, "labels": labels, **truth}, folder / "case.safetensors")
    (folder / "float32_error.json").write_text(error_json(single, truth))
    (folder / "bfloat16_error.json").write_text(error_json(half, truth))
    for file in [*folder.iterdir(), *(folder / "adapter").iterdir()]:
        if file.is_file():
            file.chmod(0o644)
    size = sum(file.stat().st_size for file in folder.rglob("*"))
    print(f"{folder.name}: loss {truth['losses'][0]:.4f} -> {truth['losses'][-1]:.4f}, {size // 1000} KB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "cases")
    parser.add_argument("case", nargs="*")
    arguments = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # sums have one order
    for number, (name, case) in enumerate(cases().items()):
        if not arguments.case or name in arguments.case:
            make(arguments.out / name, case, 100 * (number + 1))


if __name__ == "__main__":
    main()
