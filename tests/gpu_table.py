"""Prints the results of tests/gpu.sh so far: failures, workloads compared with PyTorch, kernels compared with
the limits of the same run, and the kernels of one training step as counted by Nsight Compute.

    python3 tests/gpu_table.py results.jsonl failures.txt [ncu.csv]
"""
import csv
import json
import os
import re
import sys

# Tokens per second on one H200: the expected minimum, and the maximum that the kernels' bytes allow.
TARGETS = {("gpt2-124m", 1024): (560e3, 650e3), ("gpt2-1558m", 1024): (57e3, 61e3), ("llama-3.1-8b", 8192): (12.2e3, None),
           ("gpt2-124m", 64): (64 / 2e-3, 64 / 1.3e-3)}
# The expected minimum of each kernel: a share of a copy's bandwidth, or TFLOP/s.
FLOORS = {"rms_norm": ("share", 0.85), "swiglu": ("share", 0.85), "adamw": ("share", 0.85), "cross entropy": ("share", 0.55),
          "look-up gradient": ("share", 0.2), "head +": ("value", 600)}


def show(x, form="{:.0f}"):
    return form.format(x) if x else "-"


def below(value, floor):
    return "  <- below the floor" if value and floor and value < floor else ""


def print_failures(lines):
    first = [line for line in lines if not line.startswith("    ")]
    print(f"FAILED ({len(first)}), in this order:" if lines else "nothing failed")
    print("\n".join(lines[:60]))


def print_workloads(lines):
    print(f"\n{'workload, tokens/s':44} {'ms':>8} {'tokens/s':>9} {'floor':>8} {'stretch':>8}  how")
    for line in lines:
        seconds, shape = line["ms_median"] / 1e3 if "ms_median" in line else None, (line["shape"], line["seq"])
        floor, stretch = TARGETS.get(shape, (None, None))
        how = [line["who"]]
        if line["who"] == "hawser":
            how.append("deterministic" if line["deterministic"] else "any order")
            if line.get("cuda"):
                how.append(", ".join(sorted(line["cuda"])))
            if line.get("device_without"):
                how.append("WITHOUT " + line["device_without"])
            if line.get("graphs_without"):
                how.append("NO GRAPHS: " + line["graphs_without"])
            if line.get("registered_without"):
                how.append("NOT REGISTERED: " + line["registered_without"])
        name = f"{line['shape']} {line['dtype']} {line['batch']} x {line['seq']} x {line['accum']}"
        print(f"{name:44} {show(seconds and 1e3 * seconds, '{:.2f}'):>8} {show(line['tok_s_median']):>9} {show(floor):>8} "
              f"{show(stretch):>8}  {'; '.join(how)}{below(line['tok_s_median'], floor)}")


def print_kernels(lines):
    print(f"\n{'kernel':52} {'value':>8} {'unit':>8} {'limit':>8} {'share':>6} {'floor':>6}")
    for k in lines:
        what, floor = next((f for prefix, f in FLOORS.items() if k["kernel"].startswith(prefix)), ("value", None))
        print(f"{k['kernel']:52} {k['value']:>8} {k['unit']:>8} {k.get('limit', '-'):>8} {k.get('share', '-'):>6} "
              f"{floor or '-':>6}{below(k.get(what), floor)}")


def print_profile(profile):
    for rank in profile["ranks"]:
        print(f"\nprofile by the device's events: {rank['steps']} step(s), {1e3 * rank['seconds']:.2f} ms")
        for k in rank["kernels"][:40]:
            shape = f" {k['m']} x {k['n']} x {k['k']}" if "m" in k else ""
            rate = k["flops"] / k["seconds"] * 1e-12 if k["seconds"] else 0
            speed = k["bytes"] / k["seconds"] * 1e-9 if k["seconds"] else 0
            print(f"{k['kernel'] + shape:52} {k['calls']:>5} calls {1e3 * k['seconds']:>9.3f} ms {100 * k['seconds'] / rank['seconds']:>5.1f} % "
                  f"{rate:>7.1f} TFLOP/s {speed:>7.0f} GB/s")


def short_name(kernel):
    kernel = re.sub(r"^void ", "", kernel)
    kernel = re.sub(r"hawser::kernels::cuda::|\(anonymous namespace\)::|<unnamed>::", "", kernel)
    return kernel.split("(")[0][:90]


def print_ncu(path):
    with open(path, newline="") as file:
        text = [line for line in file if not line.startswith("==")]
    rows, units = list(csv.DictReader(text)), {}
    if not rows:
        return
    if not rows[0]["Kernel Name"]:
        units = rows.pop(0)
    scales = {"ns": 1e-9, "us": 1e-6, "usecond": 1e-6, "nsecond": 1e-9, "ms": 1e-3, "msecond": 1e-3, "second": 1, "s": 1, "byte": 1,
              "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    number = lambda row, key: float(row[key].replace(",", "") or 0) * scales.get(units.get(key, ""), 1)
    kernels = {}
    for row in rows:
        entry = kernels.setdefault((short_name(row["Kernel Name"]), row.get("Block Size", ""), row.get("Grid Size", "")), [0, 0.0, 0.0, 0.0])
        entry[0] += 1
        for i, key in enumerate(("gpu__time_duration.sum", "dram__bytes_read.sum", "dram__bytes_write.sum")):
            entry[1 + i] += number(row, key)
    total = sum(entry[1] for entry in kernels.values())
    print(f"\nkernels of one step as Nsight Compute counts them: {sum(e[0] for e in kernels.values())} launches, {1e3 * total:.2f} ms")
    for (name, block, grid), (count, seconds, read, written) in sorted(kernels.items(), key=lambda item: -item[1][1])[:60]:
        print(f"{1e3 * seconds:>8.3f} ms {100 * seconds / total:>5.1f} % {count:>5} x  {read * 1e-6 / count:>8.1f} MB read "
              f"{written * 1e-6 / count:>8.1f} MB written {(read + written) / seconds * 1e-9:>6.0f} GB/s  {name} {grid} {block}")


def main(results, failures, ncu=""):
    lines = [json.loads(line) for line in open(results)]
    print_failures(open(failures).read().splitlines())
    devices = {line.get("device_name") or line.get("gpu") for line in lines} - {None}
    print("devices:", *devices, "drivers:", *{line["driver"] for line in lines}, "libraries:", *{line.get("libraries", "") for line in lines})
    print_workloads([line for line in lines if "tok_s_median" in line])
    print_kernels([line for line in lines if "kernel" in line])
    for line in lines:
        if "profile" in line:
            print_profile(line["profile"])
    if ncu and os.path.exists(ncu):
        print_ncu(ncu)


if __name__ == "__main__":
    main(*sys.argv[1:])
