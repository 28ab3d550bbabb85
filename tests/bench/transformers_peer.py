"""Trains a model with Transformers (and PEFT, if an adapter is given), one step per line of standard input.

    python3 tests/bench/transformers_peer.py FOLDER ROWS TOKENS PRECISION THREADS [--lora RANK | --adapter FOLDER]
                                             [--experts NAME] [--rate RATE]

FOLDER is a Hugging Face folder; the folder of an adapter is as PEFT saves it. A line names a file with token ids,
int32 [2, ROWS, TOKENS]: inputs and targets. After "eval", the file is only evaluated. The response is one line of
JSON: seconds and loss of the step, including AdamW. Precision bf16 has f32 weights under autocast; bf16_pure has
everything in bf16. beside_transformers.py and held_out.py run this program.
"""

import argparse
import json
import sys
import time

import numpy
import torch
from transformers import AutoModelForCausalLM


def load(args):
    model = AutoModelForCausalLM.from_pretrained(
        args.folder,
        dtype=torch.bfloat16 if args.precision == "bf16_pure" else torch.float32,
        attn_implementation="sdpa",
        **({"experts_implementation": args.experts} if args.experts else {}),
    )
    if args.adapter:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, args.adapter, is_trainable=True)
    if args.lora:
        from peft import LoraConfig, get_peft_model

        # PEFT's users load a frozen base in bf16, and Hawser stores it in bf16 too.
        if args.precision == "bf16":
            model = model.to(torch.bfloat16)
        config = LoraConfig(r=args.lora, lora_alpha=2 * args.lora, target_modules="all-linear", task_type="CAUSAL_LM")
        model = get_peft_model(model, config)
    return model.train()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("rows", type=int)
    parser.add_argument("tokens", type=int)
    parser.add_argument("precision", choices=["fp32", "bf16", "bf16_pure"])
    parser.add_argument("threads", type=int)
    parser.add_argument("--lora", type=int, default=0)
    parser.add_argument("--adapter", default="")
    parser.add_argument("--experts", default="")
    parser.add_argument("--rate", type=float, default=1e-4)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    model = load(args)
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args.rate, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
    print(json.dumps({"trained": sum(p.numel() for p in trained), "torch": torch.__version__}), flush=True)
    for line in sys.stdin:
        evaluates = line.startswith("eval ")
        file = line.removeprefix("eval ").strip()
        ids = torch.from_numpy(numpy.fromfile(file, dtype=numpy.int32).reshape(2, -1, args.tokens)).long()
        begin = time.perf_counter()
        with torch.autocast("cpu", torch.bfloat16, enabled=args.precision == "bf16"):
            logits = model(input_ids=ids[0], use_cache=False).logits
        loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), ids[1].flatten())
        if evaluates:
            print(json.dumps({"seconds": time.perf_counter() - begin, "loss": loss.item()}), flush=True)
            continue
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(json.dumps({"seconds": time.perf_counter() - begin, "loss": loss.item()}), flush=True)


main()
