"""Asserts that the layout that `hawser plan --search` finds is never slower than that of the usual decision tree, and
prints what each of the tree's layouts costs.

  tree_test.py HAWSER CLUSTERS [CASE...]

CLUSTERS: the folder of the library's cluster files. The tree: bf16, ZeRO-1 and selective recomputation; tensor
parallelism until a layer is a sixteenth of a device at most, inside a node and with at least 1024 features a rank;
context parallelism above 32k tokens; expert parallelism for experts; a pipeline until the model fits; data
parallelism with the rest. One node: ZeRO-3 and full recomputation. Without a pipeline and with a model that ZeRO-1
does not fit, ZeRO-2."""

import json
import os
import statistics
import subprocess
import sys
import tempfile

NODE = 8
LONG_ROWS = 32768

DENSE = {  # layers, width, heads, kv_heads, mlp_width, vocabulary
    "1B": (16, 2048, 32, 8, 8192, 128256),
    "8B": (32, 4096, 32, 8, 14336, 128256),
    "70B": (80, 8192, 64, 8, 28672, 128256),
    "405B": (126, 16384, 128, 8, 53248, 128256),
    "1T": (128, 24576, 192, 8, 65536, 128256),
}
MIXTURES = {  # the same, with experts, top_k and their width
    "47B MoE": (32, 4096, 32, 8, 14336, 32000, 8, 2, 14336),
    "30B MoE": (48, 2048, 32, 4, 6144, 151936, 128, 8, 768),
}

# Name of the model, tokens of a row, rows of a step, GPUs, cluster.
CASES = [
    ("1B", 4096, 8, 1, "a100-40"), ("1B", 4096, 64, 8, "a100-40"), ("1B", 4096, 512, 64, "a100-80"),
    ("1B", 131072, 8, 8, "h100-80"), ("8B", 4096, 64, 8, "h100-80"), ("8B", 4096, 128, 16, "a100-40"),
    ("8B", 4096, 512, 128, "a100-80"), ("8B", 131072, 32, 64, "h100-80"), ("70B", 4096, 256, 64, "a100-80"),
    ("70B", 4096, 512, 256, "a100-40"), ("70B", 4096, 1024, 1024, "h100-80"), ("405B", 4096, 512, 512, "h100-80"),
    ("405B", 4096, 2048, 4096, "h100-80"), ("405B", 4096, 2048, 16384, "h100-80"), ("1T", 4096, 1024, 2048, "a100-80"),
    ("1T", 4096, 2048, 16384, "h100-80"), ("47B MoE", 4096, 128, 32, "h100-80"), ("47B MoE", 4096, 512, 128, "a100-80"),
    ("30B MoE", 4096, 128, 16, "h100-80"), ("30B MoE", 4096, 512, 128, "a100-40"),
]
# Cases that run only if they are named, because they take minutes. The rules find no layout that fits for the first three.
NAMED = [
    ("70B", 131072, 32, 256, "h100-80"), ("405B", 131072, 64, 2048, "h100-80"), ("47B MoE", 131072, 32, 64, "h100-80"),
    ("30B MoE", 131072, 32, 128, "h100-80"),
]
MEDIAN_GAIN = 1.2  # of the seconds of the tree over those of the search


def name_of(case):
    return "%s, %d tokens, %d x %s" % (case[0], case[1], case[3], case[4])


def cluster_of(folder, name):
    """Returns the cluster file; a100-40 is a100-80 with half of the memory."""
    with open(os.path.join(folder, name.replace("a100-40", "a100-80") + ".json")) as file:
        cluster = json.load(file)
    if name == "a100-40":
        cluster["name"] = "A100 SXM 40 GB"
        cluster["device"]["memory_bytes"] = {"value": 40e9, "source": "40,536 MiB, less 2.5 GB, assumed"}
    return cluster


def base_of(case):
    """Returns the config without a layout."""
    model, sequence, rows, _, _ = case
    shape = DENSE.get(model) or MIXTURES[model]
    config = {"precision": "bf16",
              "model": {"layers": shape[0], "width": shape[1], "heads": shape[2], "kv_heads": shape[3],
                        "mlp_width": shape[4], "vocab_size": shape[5], "context": sequence, "norm": "rms_norm",
                        "mlp": "swiglu", "position": "rotary", "tied_head": False},
              "batch": {"sequence": sequence, "global_batch": rows}}
    if len(shape) > 6:
        config["model"]["moe"] = {"experts": shape[6], "top_k": shape[7], "width": shape[8]}
    return config


class Tree:
    """The layout of the usual rules."""

    def __init__(self, case, memory):
        self.case, self.memory = case, memory
        self.config = base_of(case)
        model = self.config["model"]
        self.experts = model.get("moe", {}).get("experts", 0)
        attention = 2 * model["width"] ** 2 * (1 + model["kv_heads"] / model["heads"])
        hidden = model["moe"]["width"] if self.experts else model["mlp_width"]
        self.layer = attention + 3 * model["width"] * hidden * max(1, self.experts)

    def layouts(self):
        """Yields layouts from the one that the rules name to those with more stages, for models that do not fit."""
        _, sequence, rows, gpus, _ = self.case
        model = self.config["model"]
        cp = 1
        while sequence // cp > LONG_ROWS and gpus % (2 * cp) == 0:
            cp *= 2
        tp = 1
        if gpus > NODE:
            while (18 * self.layer / max(1, self.experts) / tp > self.memory / 16 and tp < NODE and
                   model["width"] // (2 * tp) >= 1024 and model["kv_heads"] * 64 >= tp):
                tp *= 2
        pp = 1
        while pp <= model["layers"]:
            ranks = gpus // (tp * cp * pp)
            if ranks >= 1 and gpus % (tp * cp * pp) == 0:
                dp = max(d for d in range(1, min(ranks, rows) + 1) if ranks % d == 0 and rows % d == 0)
                if dp == ranks:
                    yield from self.with_stages(tp, cp, pp, dp)
            pp *= 2

    def with_stages(self, tp, cp, pp, dp):
        one_node = self.case[3] <= NODE
        for stage in ([3] if one_node else [1, 2] if pp == 1 else [1]):
            config = json.loads(json.dumps(self.config))
            config["mesh"] = {"tp": tp, "cp": cp, "pp": pp, "dp_shard": dp}
            if self.experts:
                config["mesh"]["ep"] = max(e for e in (1, 2, 4, 8) if dp * cp * tp % e == 0 and self.experts % e == 0)
            if dp * cp > 1:
                config["zero"] = {"stage": stage}
            config["recompute"] = {"policy": "full" if one_node else "selective"}
            config["batch"]["micro_batch"] = 1
            yield config


class Command:
    def __init__(self, hawser, cluster, folder):
        self.hawser, self.folder = hawser, folder
        self.cluster = os.path.join(folder, "cluster.json")
        with open(self.cluster, "w") as file:
            json.dump(cluster, file)

    def plan(self, config, *words):
        """Returns the report, or the error."""
        path = os.path.join(self.folder, "config.json")
        with open(path, "w") as file:
            json.dump(config, file)
        done = subprocess.run([self.hawser, "plan", path, "--cluster", self.cluster, "--json", *words],
                              capture_output=True, text=True)
        return json.loads(done.stdout) if done.returncode == 0 else done.stderr


def compare(hawser, clusters, case):
    """Returns the seconds of the tree's layout and of the search's, or a text of what went wrong."""
    cluster = cluster_of(clusters, case[4])
    with tempfile.TemporaryDirectory() as folder:
        command = Command(hawser, cluster, folder)
        tree, why = None, "no layout of the rules has so many ranks"
        for config in Tree(case, cluster["device"]["memory_bytes"]["value"]).layouts():
            report = command.plan(config)
            if isinstance(report, str):
                why = report
            elif report["fits"]["all_ranks"]:
                tree = (report["foretold"]["seconds"], config["mesh"], config.get("zero"))
                break
            else:
                why = "it does not fit"
        found = command.plan(base_of(case), "--search", "--ranks", str(case[3]), "--top", "1")
        if isinstance(found, str):
            return None, None, found
        best = found["layouts"][0]
        if tree is None:
            return None, best["seconds"], "the tree has no layout: " + why
        return tree[0], best["seconds"], "tree %s %s, search %s" % (tree[1], tree[2], best["fields"])


def main():
    hawser, clusters, *names = sys.argv[1:]
    gains, failed = [], []
    for case in CASES if not names else [case for case in CASES + NAMED if name_of(case) in names]:
        tree, search, text = compare(hawser, clusters, case)
        ratio = tree / search if tree and search else None
        print("%-34s tree %s s, search %s s, ratio %s: %s" % (name_of(case), tree, search, ratio, text), flush=True)
        if search is None:
            failed.append(name_of(case) + ": the search finds nothing")
        elif ratio is not None:
            gains.append(ratio)
            if ratio < 1 - 1e-9:
                failed.append(name_of(case) + ": the search is slower")
    if gains:
        print("median: the tree takes %.3f times the seconds of the search" % statistics.median(gains))
        if not names and statistics.median(gains) < MEDIAN_GAIN:
            failed.append("the median is below %s" % MEDIAN_GAIN)
    for text in failed:
        print("FAILED:", text)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
