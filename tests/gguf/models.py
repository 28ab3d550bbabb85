"""Model sections whose GGUF files llama.cpp must compute, one for each way in which a file can differ."""
import math

GATED = {"norm": "rms_norm", "mlp": "swiglu", "position": "rotary", "norm_eps": 1e-5}
SMALL = {"vocab_size": 131, "context": 64, "layers": 3, "width": 64, "heads": 4, "mlp_width": 96}
QKV_BIAS = {"q": True, "k": True, "v": True}
GPT2 = {**SMALL, "norm": "layer_norm", "mlp": "gelu_tanh", "position": "learned", "tied_head": True,
        "bias": {**QKV_BIAS, "o": True, "up": True, "down": True, "norm": True}}
LLAMA = {**SMALL, **GATED, "kv_heads": 2, "head_dim": 16}
GEMMA = {**SMALL, **GATED, "mlp": "geglu", "norm_weight_offset": 1.0, "post_norm": True, "embedding_scale": 8.0,
         "tied_head": True, "kv_heads": 2, "head_dim": 16, "window": 9}
EXPERTS = {"experts": 6, "top_k": 2, "width": 32, "normalize": True}
DEEPSEEK_EXPERTS = {**EXPERTS, "score": "sigmoid", "scale": 1.8, "groups": 3, "top_groups": 2, "shared_width": 64,
                    "layers": [1, 2]}
EXPERTS_WITHOUT_GROUPS = {name: value for name, value in DEEPSEEK_EXPERTS.items() if "groups" not in name}
DEEPSEEK = {**SMALL, **GATED, "norm_eps": 1e-6, "head_dim": 24, "moe": DEEPSEEK_EXPERTS,
            "latent": {"kv_rank": 32, "q_rank": 24, "rope_dim": 8, "value_dim": 16, "norm_eps": 1e-6}}
GPT_OSS = {**LLAMA, "mlp": "swiglu_clamped", "sinks": True, "window": 9, "window_layers": [0, 2], "moe": EXPERTS,
           "bias": {name: True for name in ("q", "k", "v", "o", "gate", "up", "down", "router")}}
YARN = {"scaling": "yarn", "factor": 4.0, "original_context": 16, "theta": 10000.0}

MODELS = {
    "gpt2": GPT2,
    "gpt2 without biases": {**SMALL, "norm": "layer_norm", "mlp": "gelu_tanh", "position": "learned"},
    "llama": LLAMA,
    "llama with all biases": {**SMALL, **GATED, "bias": {**QKV_BIAS, "o": True, "gate": True, "up": True, "down": True}},
    "llama 3.1": {**LLAMA, "kv_heads": 1, "tied_head": True,
                  "rope": {"scaling": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                           "original_context": 16, "theta": 10000.0}},
    "llama, linear": {**LLAMA, "rope": {"scaling": "linear", "factor": 4.0}},
    "llama, yarn": {**LLAMA, "rope": YARN},
    "llama, yarn with its own factor": {**LLAMA, "rope": {**YARN, "attention_factor": 1.3, "beta_fast": 16.0, "beta_slow": 2.0}},
    "mistral with a window": {**LLAMA, "window": 24},
    "mixtral": {**LLAMA, "moe": EXPERTS},
    "qwen2": {**LLAMA, "bias": QKV_BIAS, "tied_head": True},
    "qwen2, yarn": {**LLAMA, "bias": QKV_BIAS, "rope": YARN},
    "qwen3": {**LLAMA, "head_dim": 32, "qk_norm": True},
    "qwen2_moe": {**SMALL, **GATED, "bias": QKV_BIAS,
                  "moe": {**EXPERTS, "normalize": False, "shared_width": 48, "shared_gate": True}},
    "qwen2_moe, tied": {**SMALL, **GATED, "bias": QKV_BIAS, "tied_head": True,
                        "moe": {**EXPERTS, "normalize": False, "shared_width": 48, "shared_gate": True}},
    "qwen3_moe": {**LLAMA, "qk_norm": True, "moe": EXPERTS},
    "gemma2": {**GEMMA, "layers": 4, "window_layers": [0, 2], "attention_softcap": 20.0, "logit_softcap": 15.0},
    "gemma3": {**GEMMA, "layers": 8, "qk_norm": True, "window_layers": [0, 1, 2, 3, 4, 6, 7],
               "rope": {"theta": 1e6, "window_theta": 10000.0, "scaling": "linear", "factor": 8.0}},
    "dots1": {**SMALL, **GATED, "qk_norm": True, "moe": DEEPSEEK_EXPERTS},
    "glm4_moe": {**LLAMA, "bias": QKV_BIAS, "rope": {"dim": 8}, "moe": EXPERTS_WITHOUT_GROUPS},
    "glm4_moe, norms of queries and keys": {**LLAMA, "qk_norm": True, "bias": QKV_BIAS, "rope": {"dim": 12},
                                            "moe": DEEPSEEK_EXPERTS},
    "gpt_oss": GPT_OSS,
    "gpt_oss, yarn": {**GPT_OSS, "rope": YARN},
    "deepseek_v3": DEEPSEEK,
    "deepseek_v3, halves, yarn": {**DEEPSEEK, "latent": {**DEEPSEEK["latent"], "interleaved": False},
                                  "attention_scale": 24 ** -0.5 * (0.1 * math.log(4) + 1) ** 2,
                                  "rope": {**YARN, "mscale": 1.0, "mscale_all_dim": 1.0}},
}

# Models that llama.cpp cannot compute, and a word of the error.
REFUSED = {
    "a score": ({**LLAMA, "head": "score"}, "score"),
    "GELU": ({**GPT2, "mlp": "gelu"}, "GELU"),
    "layers without experts": ({**LLAMA, "qk_norm": True, "moe": {**EXPERTS, "layers": [0, 2]}}, "dense layers"),
    "weights of experts": ({**SMALL, **GATED, "bias": QKV_BIAS, "moe": {**EXPERTS, "shared_width": 48, "shared_gate": True}}, "normalised"),
    "windows of gemma2": ({**GEMMA, "window_layers": [1, 2], "attention_softcap": 20.0, "logit_softcap": 15.0}, "windows"),
    "gemma2 without caps": ({**GEMMA, "layers": 4, "window_layers": [0, 2]}, "soft cap"),
    "the scale of gemma2": ({**GEMMA, "layers": 4, "window_layers": [0, 2], "attention_softcap": 20.0, "logit_softcap": 15.0,
                             "attention_scale": 20 ** -0.5}, "attention_scale"),
    "yarn without rounding": ({**LLAMA, "rope": {**YARN, "truncate": False}}, "truncat"),
    "yarn of gpt_oss": ({**GPT_OSS, "rope": {**YARN, "truncate": False}}, "truncat"),
    "attention of gpt_oss without biases": ({**GPT_OSS, "bias": {name: True for name in ("gate", "up", "down", "router")}},
                                            "without biases"),
    "windows of dots1": ({**SMALL, **GATED, "qk_norm": True, "window": 9, "window_layers": [1], "moe": DEEPSEEK_EXPERTS}, "windows"),
    "no compressed queries": ({**DEEPSEEK, "latent": {**DEEPSEEK["latent"], "q_rank": 0}}, "q_rank"),
}
