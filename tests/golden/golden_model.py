"""The models of make_cases.py: Transformers' models with their layers for multi-token prediction, and their files."""
import math

import safetensors.torch
import torch
import transformers
from torch.nn.functional import cross_entropy
from transformers.core_model_loading import revert_weight_conversion
from transformers.modeling_layers import MtpModel

MASKED = -100
# Uses each family's own formula; fused kernels would be a second implementation.
PLAIN = {"attn_implementation": "eager", "experts_implementation": "eager"}


def save(tensors, path, metadata=None):
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, metadata)
    path.chmod(0o644)


class Model(torch.nn.Module):
    """A model of Transformers with its layers for multi-token prediction, under the names of a published folder."""

    def __init__(self, model):
        super().__init__()
        self.model, self.config = model, model.config
        depths = getattr(model.config, "num_mtp_layers", 0)
        self.ahead = MtpModel(model, depths) if depths else None
        if depths:
            self.ahead.config._attn_implementation = PLAIN["attn_implementation"]
            self.ahead.config._experts_implementation = PLAIN["experts_implementation"]
        self.train()

    def folder_name(self, name):
        """Returns the published name of a tensor of a depth."""
        depth, part = name.split(".", 1)
        part = part.removeprefix("mtp_block.").replace("post_norm.", "shared_head.norm.")
        return f"model.layers.{self.config.num_hidden_layers + int(depth)}.{part}"

    def parameters_by_name(self):
        own = self.ahead.layers.named_parameters() if self.ahead else ()
        return dict(self.model.named_parameters()) | {self.folder_name(name): w for name, w in own}

    def biases(self):
        """Returns what balances the experts, which no gradient trains."""
        own = self.ahead.layers.named_buffers() if self.ahead else ()
        every = dict(self.model.named_buffers()) | {self.folder_name(name): b for name, b in own}
        return {name: b for name, b in every.items() if name.endswith("e_score_correction_bias")}

    def losses(self, ids, labels):
        """Returns the logits and loss of the next token, and the losses of the depths."""
        out = self.model(input_ids=ids, use_cache=False, output_hidden_states=bool(self.ahead))
        losses = [mean_loss(out.logits, labels, 1)]
        hidden = out.hidden_states[-1] if self.ahead else None
        for depth in range(len(self.ahead.layers) if self.ahead else 0):
            ids = torch.nn.functional.pad(ids[:, 1:], (0, 1))  # beyond the row, no target reads the token
            positions = (torch.arange(ids.shape[1]) + 1 + depth)[None]
            hidden = self.ahead.forward_layer(depth, hidden, positions, None, input_ids=ids)
            losses.append(mean_loss(self.model.lm_head(hidden), labels, 2 + depth))
        return out.logits, losses[0], losses[1:]

    def save(self, folder, case):
        self.model.save_pretrained(folder, max_shard_size=case.shard_size)
        if not self.ahead:
            return
        tensors = safetensors.torch.load_file(folder / "model.safetensors")
        own = {self.folder_name(name): w for name, w in self.ahead.layers.state_dict().items()}
        tensors |= revert_weight_conversion(self.model, own)
        for layer in {name.split(".")[2] for name in own}:
            tensors[f"model.layers.{layer}.embed_tokens.weight"] = tensors["model.embed_tokens.weight"].clone()
            tensors[f"model.layers.{layer}.shared_head.head.weight"] = tensors["lm_head.weight"].clone()
        save(tensors, folder / "model.safetensors", {"format": "pt"})


def mean_loss(logits, labels, shift):
    """Returns the mean loss of the labels that are `shift` columns ahead."""
    wide = logits.double() if logits.dtype == torch.float64 else logits.to(torch.get_default_dtype())
    return cross_entropy(wide[:, :-shift].flatten(0, 1), labels[:, shift:].flatten(), ignore_index=MASKED)


def model_of(config, dtype):
    return Model(transformers.AutoModelForCausalLM.from_config(config, **PLAIN)).to(dtype)


def lively_weights(config, seed):
    """Returns a model whose weights are large enough for soft caps, softmax, norms and biases to matter."""
    random = torch.Generator().manual_seed(seed)
    model = model_of(config, torch.float32)
    for name, weight in model.parameters_by_name().items():
        noise = torch.randn(weight.shape, generator=random)
        if weight.dim() == 1:
            weight.data += 0.1 * noise
        elif "embed" in name or "wte" in name or "wpe" in name:
            weight.data = 0.4 * noise
        else:
            weight.data = noise * 1.2 / math.sqrt(weight.shape[-1])
            if hasattr(config, "swiglu_limit") and name.endswith("gate_up_proj"):
                weight.data *= 2  # so that some activations are clamped
    return model
