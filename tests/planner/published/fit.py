"""Fits the constants of a stack to the rows of a table that are for it, with the predictions of `hawser plan
--published`: Levenberg-Marquardt on the logarithms of foretold / reported, from the middle of the bounds.

  fit.py HAWSER [TABLE.json...]           fit, and write the constants into the stacks
  fit.py --check HAWSER [TABLE.json...]   fit, and compare with the constants in the stacks

A table names its constants under `fitted`: the pointer in the stack's file, and the least and the most that is
physically possible. Rows that are held back are never read. Only the standard library is needed."""

import concurrent.futures
import copy
import glob
import json
import math
import os
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
STEP = 2e-3  # of the parameters, for differences


def at(tree, pointer):
    """Returns the object that has the last key of the pointer, and that key."""
    *path, last = pointer.split("/")[1:]
    for key in path:
        tree = tree[int(key) if isinstance(tree, list) else key]
    return tree, last


def rounded(number):
    return float("%.4g" % number)


def solved(a, b):
    """Returns x with a x = b, by Gauss's elimination with pivots."""
    n = len(b)
    rows = [list(row) + [value] for row, value in zip(a, b)]
    for i in range(n):
        pivot = max(range(i, n), key=lambda r: abs(rows[r][i]))
        rows[i], rows[pivot] = rows[pivot], rows[i]
        for r in range(n):
            if r != i:
                factor = rows[r][i] / rows[i][i]
                rows[r] = [x - factor * y for x, y in zip(rows[r], rows[i])]
    return [rows[i][n] / rows[i][i] for i in range(n)]


class Fit:
    """A table, reduced to the rows to fit, and its stack. A parameter is 0 at the least value of its constant
    and 1 at the most."""

    def __init__(self, hawser, path):
        self.hawser = hawser
        with open(path) as file:
            self.table = json.load(file)
        self.stack_path = os.path.join(os.path.dirname(path), "stacks", self.table["stack"] + ".json")
        with open(self.stack_path) as file:
            self.stack = json.load(file)
        self.constants = self.table["fitted"]
        foretold = [row for row in self.table["rows"] if row["use"] != "not enough stated"]
        self.table["rows"] = [row for row in foretold if row["use"] == "fit"]
        if len(self.constants) > 4:
            sys.exit(f"{path}: {len(self.constants)} constants, but a stack may have 4")
        if 3 * len(self.table["rows"]) > len(foretold):
            sys.exit(f"{path}: more than a third of the rows are fitted")

    def values(self, parameters):
        return [c["least"] + p * (c["most"] - c["least"]) for c, p in zip(self.constants, parameters)]

    def committed(self):
        return [tree[key] for tree, key in (at(self.stack, c["pointer"]) for c in self.constants)]

    def stack_with(self, values):
        stack = copy.deepcopy(self.stack)
        for constant, value in zip(self.constants, values):
            tree, key = at(stack, constant["pointer"])
            tree[key] = value
        return stack

    def residuals(self, parameters):
        """Returns log(foretold / reported) of the rows."""
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "stacks"))
            table = os.path.join(folder, "table.json")
            with open(table, "w") as file:
                json.dump(self.table, file)
            with open(os.path.join(folder, "stacks", self.table["stack"] + ".json"), "w") as file:
                json.dump(self.stack_with(self.values(parameters)), file)
            command = [self.hawser, "plan", "--published", "--tables", table, "--json"]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(done.stderr)
        return [math.log1p(row["error"]) for row in json.loads(done.stdout)["tables"][0]["rows"]]

    def all_residuals(self, points):
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(self.residuals, points))

    def run(self):
        """Returns the values with the least sum of squares."""
        n = len(self.constants)
        here, damping = [0.5] * n, 1e-3
        now = self.residuals(here)
        for _ in range(20):
            shifted = [[p + (STEP if i == j else 0) for j, p in enumerate(here)] for i in range(n)]
            slopes = [[(b - a) / STEP for a, b in zip(now, after)] for after in self.all_residuals(shifted)]
            tried = [self.step(here, now, slopes, damping * 10**k) for k in range(2)]
            found = self.all_residuals(tried)
            best = min(range(2), key=lambda k: squares(found[k]))
            moved = max(abs(a - b) for a, b in zip(tried[best], here))
            if squares(found[best]) >= squares(now):
                damping *= 100
                if damping > 10:
                    break
                continue
            here, now, damping = tried[best], found[best], max(1e-6, damping * 10 ** (best - 1))
            if moved < 1e-4:
                break
        return self.values(here), now

    @staticmethod
    def step(here, now, slopes, damping):
        """Returns the next point. Parameters that would leave their bounds stay at them."""
        free = list(range(len(here)))
        there = list(here)
        while free:
            normal = [[sum(a * b for a, b in zip(slopes[i], slopes[j])) for j in free] for i in free]
            for k in range(len(free)):
                normal[k][k] += damping * (normal[k][k] + 1e-9)
            moves = solved(normal, [-sum(a * b for a, b in zip(slopes[i], now)) for i in free])
            out = [i for i, move in zip(free, moves) if not 0 <= here[i] + move <= 1]
            if not out:
                for i, move in zip(free, moves):
                    there[i] = here[i] + move
                return there
            for i in out:
                there[i] = 0.0 if here[i] + moves[free.index(i)] < 0 else 1.0
                now = [r + (there[i] - here[i]) * s for r, s in zip(now, slopes[i])]
            free = [i for i in free if i not in out]
        return there


def squares(residuals):
    return sum(r * r for r in residuals)


def main():
    words = sys.argv[1:]
    check = words[:1] == ["--check"]
    hawser, *tables = words[1:] if check else words
    failed = False
    for path in tables or sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        with open(path) as file:
            if "fitted" not in json.load(file):
                continue
        fit = Fit(hawser, path)
        values, residuals = fit.run()
        print(os.path.basename(path), "residuals", " ".join("%+.2f%%" % (100 * r) for r in residuals))
        for constant, value, before in zip(fit.constants, values, fit.committed()):
            near = abs(value - before) <= 0.005 * (constant["most"] - constant["least"])
            print("  %-38s %12.4g   in the file: %12.4g%s" % (constant["pointer"], value, before,
                                                              "" if near or not check else "   DIFFERS"))
            failed |= not near
        if not check:
            with open(fit.stack_path, "w") as file:
                file.write(json.dumps(fit.stack_with([rounded(v) for v in values]), indent=2) + "\n")
    sys.exit(1 if check and failed else 0)


if __name__ == "__main__":
    main()
