"""Models that several benchmarks train."""

MIXTURE = {
    "vocab_size": 4096, "context": 512, "layers": 4, "width": 768, "heads": 12, "norm": "rms_norm", "mlp": "swiglu",
    "tied_head": False, "moe": {"experts": 16, "top_k": 2, "width": 1024},
}
