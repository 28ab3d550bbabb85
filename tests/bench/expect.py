"""Prints what to expect of training on one GPU: a table made from the plan of each workload and the cluster files.

    python3 tests/bench/expect.py [--hawser build/hawser] [--check PAGE]

Nothing is measured: `hawser plan --cluster` lists the kernels of a step with their bytes and FLOPs, and takes the rates
from the cluster file. The workloads are those of tests/gpu.sh. --check fails unless PAGE is what the program prints.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path

CLUSTERS = {"h100-80": "H100", "h200-141": "H200"}
WORKLOADS = [  # name, preset, micro-batch, micro-batches, sequence, precision, type of the residual stream
    ("GPT-2 124M, 64 x 1024 x 8, bf16", "gpt2-124m", 64, 8, 1024, "bf16", "f32"),
    ("GPT-2 124M, 64 x 1024 x 8, bf16, /cuda/residual bf16", "gpt2-124m", 64, 8, 1024, "bf16", "bf16"),
    ("GPT-2 1558M, 16 x 1024 x 4, bf16", "gpt2-1558m", 16, 4, 1024, "bf16", "f32"),
    ("Llama 3.1 8B, 1 x 2048, bf16_pure", "llama-3.1-8b", 1, 1, 2048, "bf16_pure", "f32"),
    ("Llama 3.1 8B, 1 x 8192, bf16_pure", "llama-3.1-8b", 1, 1, 8192, "bf16_pure", "f32"),
]
# A kernel belongs to the first part with a word of its name.
PARTS = {
    "products": ["matmul"],
    "attention": ["attention"],
    "norms, residuals": ["norm_", "residual"],
    "activations": ["activation", "rope"],
    "loss": ["cross_entropy"],
    "update": ["adamw", "sum_of_squares", "convert"],
    "look-ups": ["embedding"],
}

HEAD = """# What to expect on one GPU

Nothing on this page is measured. `python3 tests/bench/expect.py` makes it from the plans of the workloads and the rates
in [`engine/cluster/clusters`](../../../engine/cluster/clusters), and a test compares it with what the program prints. A
change of a plan changes the page. [`2026-11-h100.md`](2026-11-h100.md) has what a GPU measured.

"""
FOOT = """
The columns after MFU are percentages of a step. A kernel takes the longer of its arithmetic and its memory traffic, and
the last column adds up the kernels of the larger kind. Attention has the rates of its deterministic backward where they
were measured. The prediction leaves out the sums of biases, which cuBLASLt computes in kernels of its own, and the host.
"""


def plan_of(hawser, cluster, preset, rows, accumulation, sequence, precision, residual):
    fields = {"/batch/micro_batch": rows, "/batch/grad_accum_steps": accumulation, "/batch/sequence": sequence,
              "/model/context": sequence, "/precision": precision, "/cuda/residual": residual}
    command = [hawser, "plan", preset, "--cluster", cluster, "--json"]
    for pointer, value in fields.items():
        command += ["--set", f"{pointer}={value}"]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def part_of(kernel):
    for part, words in PARTS.items():
        if any(word in kernel for word in words):
            return part
    raise SystemExit(f"expect.py: the kernel {kernel} belongs to no part; name it in PARTS")


def seconds_by_part(plan):
    seconds = dict.fromkeys(PARTS, 0.0)
    for row in plan["work"]:
        seconds[part_of(row["kernel"])] += row["seconds"]
    return seconds


def row_of(hawser, cluster, workload):
    name, *fields = workload
    plan = plan_of(hawser, cluster, *fields)
    foretold, seconds = plan["foretold"], seconds_by_part(plan)
    step = foretold["seconds"]
    memory = sum(row["seconds"] for row in plan["work"] if row["bound_by"] == "memory")
    gib = f"{plan['total_bytes'] / 2**30:.1f}" + ("" if plan["fits"]["all_ranks"] else ", does not fit")
    cells = [CLUSTERS[cluster], name, gib, f"{foretold['tokens_per_second']:,.0f}", f"{100 * foretold['mfu']:.1f}"]
    cells += [f"{100 * seconds[part] / step:.1f}" for part in PARTS]
    bound = "memory" if 2 * memory > step else "arithmetic"
    return cells + [f"{bound} ({100 * max(memory, step - memory) / step:.0f})"]


def page(hawser):
    titles = ["GPU", "workload", "GiB", "tokens/s", "MFU", *PARTS, "bound by"]
    rows = [titles, ["---"] * len(titles)]
    rows += [row_of(hawser, cluster, workload) for workload in WORKLOADS for cluster in CLUSTERS]
    return HEAD + "".join("| " + " | ".join(row) + " |\n" for row in rows) + FOOT


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hawser", default="build/hawser")
    parser.add_argument("--check", type=Path)
    args = parser.parse_args()
    text = page(args.hawser)
    if args.check is None:
        print(text, end="")
    elif args.check.read_text() != text:
        sys.exit(f"{args.check} is not what the plans say now; write it anew with python3 tests/bench/expect.py:\n{text}")


if __name__ == "__main__":
    main()
