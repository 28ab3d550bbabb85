#!/usr/bin/env python3
"""Makes the small golden cases of tests/golden/cases: the results of an independent implementation (Hugging Face
Transformers and PyTorch, in float64) for tiny models, with which golden_check compares. README.md describes the files.

    python3 -m venv venv && venv/bin/pip install torch transformers safetensors numpy
    venv/bin/python tests/golden/make_cases.py [--out tests/golden/cases] [CASE ...]

The versions of both packages affect only the last bits of the values.
"""
import argparse
import contextlib
import copy
import dataclasses
import itertools
import json
import pathlib
import shutil
from unittest import mock

import numpy as np
import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers.core_model_loading import revert_weight_conversion

from golden_model import MASKED, PLAIN, Model, lively_weights, model_of, save

ROWS, STEPS = 2, 6
AHEAD_WEIGHT = 0.3  # of the mean loss of all depths of multi-token prediction


@dataclasses.dataclass
class Case:
    """One model and how it is stored. `documents`: the first columns of the documents in an extra packed row."""
    config: transformers.PretrainedConfig
    sequence: int
    stored: torch.dtype = torch.float32
    shard_size: str = "1GB"
    documents: tuple = ()
    old_config: bool = False  # also written with the keys of Transformers 4
    steps: int = STEPS


def rope(kind="default", theta=10000.0, **more):
    return {"rope_type": kind, "rope_theta": theta, **more}


def rotary_model(kind, **changed):
    """Returns a config of one of the families that have the settings of Llama."""
    settings = dict(vocab_size=37, hidden_size=16, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4,
                    num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, rope_parameters=rope(),
                    bos_token_id=None, eos_token_id=None, pad_token_id=None)
    return getattr(transformers, kind + "Config")(**(settings | changed))


def gpt2(**changed):
    settings = dict(vocab_size=37, n_positions=16, n_embd=16, n_layer=2, n_head=2, embd_pdrop=0.0, attn_pdrop=0.0,
                    resid_pdrop=0.0, bos_token_id=0, eos_token_id=0)
    return transformers.GPT2Config(**(settings | changed))


def cases():
    """Returns the cases; README.md lists what each covers."""
    return {
        "gpt2_exact": Case(gpt2(activation_function="gelu", n_embd=24, n_head=3, n_layer=1), 11, documents=(0, 4, 5)),
        "gpt2_tanh": Case(gpt2(activation_function="gelu_new", n_inner=40, layer_norm_epsilon=1e-3), 13),
        "llama_llama3": Case(rotary_model(
            "Llama", rope_parameters=rope("llama3", factor=4.0, low_freq_factor=1.0, high_freq_factor=4.0,
                                          original_max_position_embeddings=16)), 17, documents=(0, 6, 7, 13)),
        "llama_linear": Case(rotary_model(
            "Llama", num_key_value_heads=4, tie_word_embeddings=True, rope_parameters=rope("linear", factor=2.5)), 9,
            stored=torch.float16, old_config=True),
        "llama_yarn": Case(rotary_model(
            "Llama", num_hidden_layers=1, num_attention_heads=3, num_key_value_heads=1, hidden_size=18, head_dim=12,
            attention_bias=True, mlp_bias=True, rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16)), 17,
            old_config=True),
        "qwen2_window": Case(rotary_model(
            "Qwen2", tie_word_embeddings=True, use_sliding_window=True, sliding_window=4, max_window_layers=1,
            rope_parameters=rope(theta=1e6)), 13, old_config=True),
        "qwen2_long_window": Case(rotary_model(
            "Qwen2", tie_word_embeddings=True, use_sliding_window=True, sliding_window=37, max_window_layers=1,
            max_position_embeddings=256, num_key_value_heads=1), 203),
        "qwen3": Case(rotary_model("Qwen3", head_dim=10, tie_word_embeddings=False, pad_token_id=3), 12,
                      documents=(0, 5)),
        "mistral_shards": Case(rotary_model(
            "Mistral", num_key_value_heads=1, head_dim=6, sliding_window=5, tie_word_embeddings=False), 14,
            stored=torch.bfloat16, shard_size="5KB", old_config=True),
        "gemma2": Case(rotary_model(
            "Gemma2", num_attention_heads=3, num_key_value_heads=1, hidden_size=18, head_dim=8, sliding_window=5,
            query_pre_attn_scalar=11, attn_logit_softcapping=4.0, final_logit_softcapping=6.0, pad_token_id=0), 12,
            old_config=True),
        "llama_gelu": Case(rotary_model("Llama", hidden_act="gelu"), 11),
        "gemma3": Case(rotary_model(
            "Gemma3Text", num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1, hidden_size=36, intermediate_size=48, head_dim=24,
            sliding_window=5, sliding_window_pattern=2, query_pre_attn_scalar=11,
            rope_parameters={"full_attention": rope("linear", 500.0, factor=4.0), "sliding_attention": rope(theta=70.0)},
            pad_token_id=0), 20, old_config=True),
        "qwen3_moe": Case(rotary_model(
            "Qwen3Moe", num_experts=6, num_experts_per_tok=2, moe_intermediate_size=10, norm_topk_prob=True, head_dim=6,
            mlp_only_layers=[0], decoder_sparse_step=1), 12),
        "deepseek": Case(rotary_model(
            "DeepseekV3", num_key_value_heads=4, q_lora_rank=10, kv_lora_rank=12, qk_rope_head_dim=6, qk_nope_head_dim=8,
            v_head_dim=10, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=10, n_shared_experts=1, n_group=3,
            topk_group=2, first_k_dense_replace=1, routed_scaling_factor=1.5, norm_topk_prob=True, num_nextn_predict_layers=0,
            rope_parameters=rope("yarn", factor=4.0, original_max_position_embeddings=16, mscale=1.0, mscale_all_dim=0.8)),
            12),
        "glm4_moe": Case(rotary_model(
            "Glm4Moe", num_attention_heads=6, head_dim=10, attention_bias=True, use_qk_norm=True, n_routed_experts=6,
            num_experts_per_tok=2, moe_intermediate_size=10, n_shared_experts=2, n_group=1, topk_group=1,
            first_k_dense_replace=1, routed_scaling_factor=1.5, norm_topk_prob=True, num_mtp_layers=0,
            rope_parameters=rope(partial_rotary_factor=0.4)), 12, old_config=True, steps=20),
        "deepseek_ahead": Case(rotary_model(
            "DeepseekV3", num_key_value_heads=4, q_lora_rank=10, kv_lora_rank=12, qk_rope_head_dim=6, qk_nope_head_dim=8,
            v_head_dim=10, n_routed_experts=6, num_experts_per_tok=2, moe_intermediate_size=10, n_shared_experts=1, n_group=3,
            topk_group=2, first_k_dense_replace=1, norm_topk_prob=True, num_nextn_predict_layers=2), 12, steps=20),
        "glm4_moe_ahead": Case(rotary_model(
            "Glm4Moe", num_attention_heads=6, head_dim=10, use_qk_norm=True, n_routed_experts=6, num_experts_per_tok=2,
            moe_intermediate_size=10, n_shared_experts=1, n_group=1, topk_group=1, first_k_dense_replace=1,
            norm_topk_prob=True, num_mtp_layers=1, rope_parameters=rope(partial_rotary_factor=0.4)), 12, steps=20),
        "gpt_oss": Case(rotary_model(
            "GptOss", intermediate_size=10, head_dim=10, num_local_experts=6, num_experts_per_tok=2, sliding_window=5,
            max_position_embeddings=128, rope_parameters=rope(
                "yarn", 150.0, factor=4.0, beta_fast=4.0, beta_slow=1.0, truncate=False,
                original_max_position_embeddings=32)), 12, old_config=True, steps=20),
    }


@contextlib.contextmanager
def no_rounding_to_float32():
    """Replaces the name torch.float32 by float64, because Transformers computes norms, softmax and rotary tables in
    it."""
    with mock.patch.object(torch, "float32", torch.float64), mock.patch.object(torch, "float", torch.float64), \
         mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        yield


# ------------------------------------------------------------------------------------------------- the training

def batches(case, seed):
    """Returns ids and labels [steps, ROWS, sequence]. The rows have unequal shares of masked labels."""
    random = np.random.default_rng(seed)
    ids = random.integers(0, case.config.vocab_size, (case.steps, ROWS, case.sequence))
    if case.config.pad_token_id is not None:
        ids[:, 0, 1] = case.config.pad_token_id  # its look-up gives no gradient
    masked = random.random(ids.shape) < np.linspace(0.1, 0.5, ROWS)[None, :, None]
    return torch.from_numpy(ids), torch.from_numpy(np.where(masked, MASKED, ids))


def train(model, ids, labels, autocast=contextlib.nullcontext):
    """Trains with golden_check's settings of AdamW. Returns every reference value of case.safetensors except the inputs."""
    named = list(model.parameters_by_name().items())
    vectors = {name for name, w in named if w.dim() <= 1 or name.endswith("_bias")}  # stacked biases are 2D
    groups = [{"params": [w for name, w in named if name not in vectors], "weight_decay": 0.1},
              {"params": [w for name, w in named if name in vectors], "weight_decay": 0.0}]
    adamw = torch.optim.AdamW(groups, lr=2e-3, betas=(0.9, 0.95), eps=1e-8, foreach=False)
    values, losses, norms = {}, [], []
    for step in range(len(ids)):
        with autocast():
            logits, loss, ahead = model.losses(ids[step], labels[step])
            total = loss + AHEAD_WEIGHT * torch.stack(ahead).mean() if ahead else loss
        adamw.zero_grad()
        total.backward()
        if step == 0:
            values["logits"] = logits.detach().double()
            # Copies the gradient, because clipping works in place.
            values |= {"grad." + name: w.grad.double().clone() for name, w in named}
        norms.append(torch.nn.utils.clip_grad_norm_([w for _, w in named], 1.0).item())
        losses.append(loss.item())
        adamw.step()
    values["losses"] = torch.tensor(losses, dtype=torch.float64)
    values["grad_norms"] = torch.tensor(norms, dtype=torch.float64)
    return values | {"after." + name: w.detach().double() for name, w in {**dict(named), **model.biases()}.items()}


# Seeds for which PyTorch's own bfloat16 run looks steady only by luck. 9001 (gemma2): an element of the final
# norm's first gradient is 0.8 % of the others, and rounding v to bfloat16 changes its sign, independently of
# other roundings. 15039 (glm4_moe): a token, which trains nothing, has two experts of nearly equal scores. 16009 to
# 17017 (deepseek_ahead, glm4_moe_ahead): bfloat16 sums in another order choose another expert in one of twenty steps, or one
# tensor's error is up to a fifth larger than its tolerance.
UNSTEADY_SEEDS = {9001, 15039, 16009, 16015, 16016, 17000, 17003, 17004, 17005, 17006, 17008, 17012, 17014, 17015, 17017}


def is_steady(case, seed):
    """Returns False if bfloat16 rounding could change the sign of a small vector's gradient in the first step: AdamW's
    first step is lr times that sign, so one element would determine the tensor's error by chance."""
    if seed in UNSTEADY_SEEDS:
        return False
    sparse = hasattr(case.config, "num_experts_per_tok")  # choices may change in any step
    ids, labels = batches(case if sparse else dataclasses.replace(case, steps=1), seed)
    single = lively_weights(case.config, seed)
    with no_rounding_to_float32():
        exact = model_of(case.config, torch.float64)
        exact.load_state_dict(single.state_dict())
        truth = train(exact, ids, labels)
    half = train(single, ids, labels, lambda: torch.autocast("cpu", torch.bfloat16))
    if sparse and any((half[name] - exact).norm() > 0.1 * exact.norm() for name, exact in truth.items()):
        return False  # rounding changed the choice of an expert
    for name, weight in single.parameters_by_name().items():
        gradient, rounded = truth["grad." + name], half["grad." + name]
        if weight.dim() > 1 or weight.norm() > 2:
            continue
        error = (rounded - gradient).square().mean().sqrt()
        if error > 0.04 * gradient.square().mean().sqrt():
            continue  # its tolerance allows such an element
        moving = gradient.abs() > 1e-9 * gradient.norm()  # a key bias may have a gradient of zero
        if (gradient[moving].abs() < error).any():
            return False
    return True


def packed_row(model, case, seed):
    """Returns results for one row of several documents, with a document mask, restarted positions, and no target across a boundary."""
    length, starts = case.sequence, torch.tensor(case.documents)
    ids = torch.from_numpy(np.random.default_rng(seed + 1).integers(0, case.config.vocab_size, (1, length)))
    column = torch.arange(length)
    begin = starts[torch.searchsorted(starts, column, right=True) - 1]
    visible = (column[None, :] <= column[:, None]) & (column[None, :] >= begin[:, None])
    bias = torch.zeros(1, 1, length, length, dtype=torch.float64).masked_fill(~visible, -1e300)
    targets = torch.full((1, length), MASKED)
    inside = begin[1:] == begin[:-1]
    targets[0, :-1][inside] = ids[0, 1:][inside]
    model.zero_grad()
    logits = model.model(input_ids=ids, position_ids=(column - begin)[None], attention_mask=bias, use_cache=False).logits
    loss = cross_entropy(logits[0], targets[0], ignore_index=MASKED)
    loss.backward()
    values = {"input_ids": ids, "targets": targets, "document_starts": starts, "logits": logits.detach(),
              "positions": column - begin, "loss": loss.detach().reshape(1)}
    return values | {"grad." + name: w.grad.clone() for name, w in model.parameters_by_name().items()}


# ---------------------------------------------------------------------------------------------------- the files

def stored_names(model, values):
    """Returns gradients and weights under the names of model.safetensors: Transformers stacks the experts of a layer to
    compute, but stores them one by one."""
    named = {name: value for name, value in values.items() if not name.startswith(("grad.", "after."))}
    for prefix in ("grad.", "after."):
        own = {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
        named |= {prefix + name: value.clone() for name, value in revert_weight_conversion(model.model, own).items()}
    return named


def error_json(values, truth):
    """Returns JSON with the norm of the difference over the norm of the truth, per tensor and the worst."""
    each = {name: (torch.linalg.vector_norm(values[name] - exact) /
                   torch.linalg.vector_norm(exact).clamp_min(1e-30)).item() for name, exact in truth.items()}
    return json.dumps({"worst": max(each.values()), "each": each}, indent=1) + "\n"


def old_style(config):
    """Returns the same config.json with the keys of Transformers 4, from which the layers' windows must be derived."""
    rotary = config.pop("rope_parameters")
    if "sliding_attention" in rotary:
        config["rope_local_base_freq"] = rotary["sliding_attention"]["rope_theta"]
        rotary = rotary["full_attention"]
    kind, theta = rotary.pop("rope_type"), rotary.pop("rope_theta")
    if "partial_rotary_factor" in rotary:
        config["partial_rotary_factor"] = rotary.pop("partial_rotary_factor")
    config.pop("layer_types", None)
    config |= {"rope_theta": theta, "rope_scaling": None, "torch_dtype": config.pop("dtype"),
               "transformers_version": "4.46.0"}
    if kind != "default":
        # The first releases used the key "type".
        config["rope_scaling"] = rotary | ({"type": kind} if kind == "linear" else {"rope_type": kind})
    return json.dumps(config, indent=1) + "\n"


def make(folder, case, seed):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = lively_weights(case.config, seed).to(case.stored)
    made.save(folder, case)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for file in folder.iterdir():
        file.chmod(0o644)
    if case.old_config:
        (folder / "config.v4.json").write_text(old_style(json.loads((folder / "config.json").read_text())))

    def stored(dtype):
        if made.ahead:
            return copy.deepcopy(made).to(dtype)
        return Model(transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **PLAIN))
    ids, labels = batches(case, seed)
    weights = stored(case.stored).state_dict()
    with no_rounding_to_float32():
        exact = model_of(case.config, torch.float64)
        exact.load_state_dict(weights)
        packed = packed_row(exact, case, seed) if case.documents else None
        truth = train(exact, ids, labels)
    single = train(stored(torch.float32), ids, labels)
    half = train(stored(torch.float32), ids, labels, lambda: torch.autocast("cpu", torch.bfloat16))
    truth, single, half = (stored_names(exact, values) for values in (truth, single, half))
    if packed:
        packed = stored_names(exact, packed)
    save({"input_ids": ids, "labels": labels, **truth}, folder / "case.safetensors")
    if packed:
        save(packed, folder / "packed.safetensors")
    (folder / "float32_error.json").write_text(error_json(single, truth))
    (folder / "bfloat16_error.json").write_text(error_json(half, truth))
    size = sum(file.stat().st_size for file in folder.iterdir())
    print(f"{folder.name}: loss {truth['losses'][0]:.4f} -> {truth['losses'][-1]:.4f}, {size // 1000} KB")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "cases")
    parser.add_argument("case", nargs="*")
    arguments = parser.parse_args()
    every = cases()
    if unknown := set(arguments.case) - set(every):
        parser.error(f"no such case: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)  # sums have one order
    for number, (name, case) in enumerate(every.items()):
        if not arguments.case or name in arguments.case:
            seed = next(seed for seed in itertools.count(1000 * (number + 1)) if is_steady(case, seed))
            make(arguments.out / name, case, seed)


if __name__ == "__main__":
    main()
