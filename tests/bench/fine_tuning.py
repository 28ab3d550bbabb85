"""Compares fine-tuning on rows of unequal length with TRL's SFTTrainer: tokens learned a second, and peak memory.

    python3 tests/bench/fine_tuning.py HAWSER TOKENIZER --peer PYTHON [--rounds 5] [--steps 14] [--threads 2]

HAWSER is the command, TOKENIZER a tokenizer.json of the GPT-2 kind (in tests/golden/tokenizers/gpt2), and PYTHON the interpreter
of an environment with torch, transformers and trl. Both train all weights of the same small Llama in fp32 on the same rows of
prompts and completions: packed, and unpacked with a row for each. In a round, the four programs run one after the other,
in the reverse order in every second round. The first two steps of each are not measured.
"""

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import tempfile
from pathlib import Path

WARM, MICRO_BATCH, TOKENS = 2, 4, 256
WORDS = "the of and to in is you that it he was for on are as with his they at be this have from or one had by word but not".split()

MODEL = """
import sys
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
end = "<|endoftext|>"
torch.manual_seed(1)
PreTrainedTokenizerFast(tokenizer_file=sys.argv[2], eos_token=end, pad_token=end).save_pretrained(sys.argv[1])
LlamaForCausalLM(LlamaConfig(vocab_size=16000, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
                             num_key_value_heads=6, max_position_embeddings=256, tie_word_embeddings=True)).save_pretrained(sys.argv[1])
"""


def write_rows(path):
    """Writes rows with a log-normal length, a third of which is the prompt."""
    rng = random.Random(3)
    with path.open("w") as file:
        for _ in range(1600):
            count = min(230, max(4, int(rng.lognormvariate(math.log(45), 0.8))))
            words = rng.choices(WORDS, k=count)
            prompt = max(2, count // 3)
            file.write(json.dumps({"prompt": " ".join(words[:prompt]) + " ", "completion": " ".join(words[prompt:])}) + "\n")


def run(command, scratch):
    """Returns the standard output of a process and its peak memory in MB."""
    environment = {**os.environ, "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
    with open(scratch / "stdout", "w+") as out, open(scratch / "stderr", "w+") as err:
        process = subprocess.Popen([str(word) for word in command], stdout=out, stderr=err, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            raise SystemExit((scratch / "stderr").read_text()[-2000:])
    return (scratch / "stdout").read_text(), used.ru_maxrss / 1024


def hawser(args, form, model, rows, scratch, number):
    out = scratch / f"run-{number}-{form}"
    settings = {
        "/batch/micro_batch": MICRO_BATCH, "/batch/grad_accum_steps": 1, "/batch/sequence": TOKENS, "/train/steps": args.steps,
        "/train/log_every": 1, "/optimizer/learning_rate": 1e-4, "/schedule/kind": "constant", "/schedule/warmup_steps": 0,
        "/data/validation_fraction": 0, "/precision": "fp32",
    }
    command = [args.hawser, "train", model, "--data", rows, "--out", out, "--threads", args.threads]
    command += [word for pointer, value in settings.items() for word in ("--set", f"{pointer}={value}")]
    _, memory = run(command + ["--no-packing"] * (form == "unpacked"), scratch)
    steps = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    steps = [step for step in steps if "tokens" in step][WARM:]
    return sum(step["tokens"] for step in steps) / sum(step["seconds"] for step in steps), memory


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hawser", type=Path)
    parser.add_argument("tokenizer", type=Path)
    parser.add_argument("--peer", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=14)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        scratch = Path(temporary)
        model, rows = scratch / "model", scratch / "rows.jsonl"
        subprocess.run([args.peer, "-c", MODEL, model, args.tokenizer], check=True, capture_output=True)
        write_rows(rows)
        results = {(name, form): [] for form in ("packed", "unpacked") for name in ("Hawser", "TRL")}
        for number in range(args.rounds):
            for name, form in results if number % 2 == 0 else reversed(list(results)):
                if name == "Hawser":
                    results[name, form].append(hawser(args, form, model, rows, scratch, number))
                    continue
                script = Path(__file__).with_name("sft_peer.py")
                shown, memory = run([args.peer, script, model, rows, form, args.steps, MICRO_BATCH, TOKENS, args.threads, scratch / "peer"],
                                    scratch)
                peer = json.loads(shown.strip().splitlines()[-1])
                results[name, form].append((peer["learned"] / peer["seconds"], memory))
        print(peer["versions"])
        for form in ("packed", "unpacked"):
            medians = {}
            for name in ("Hawser", "TRL"):
                rates, memory = zip(*results[name, form])
                medians[name] = statistics.median(rates), statistics.median(memory)
                print(f"{form}, {name}: {medians[name][0]:.0f} tokens learned/s ({min(rates):.0f} to {max(rates):.0f}), "
                      f"peak {medians[name][1]:.0f} MB")
            ratios = [own[0] / other[0] for own, other in zip(results["Hawser", form], results["TRL", form])]
            print(f"{form}: {statistics.median(ratios):.2f} x the tokens a second ({min(ratios):.2f} to {max(ratios):.2f}), "
                  f"{medians['Hawser'][1] / medians['TRL'][1]:.2f} x the memory")


main()
