#!/usr/bin/env python3
"""Prints the seconds of build steps and of tests by folder, and the slowest tests, of a build folder.

    python3 tests/times.py [BUILD]

Each step of the build and each test counts once, with the time of its last run. Steps that ran side by side count in
full, so the sums are close to CPU seconds. Folders with less than a fiftieth of the time are not shown.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

SLOWEST = 10
LEAST_SHARE = 0.02  # a folder with less of the time is not shown


def step_folder(output):
    """Returns the source folder of a build step: two levels for tests and bindings, otherwise one level."""
    parts = [part for part in re.sub(r"CMakeFiles/|[\w.+-]+\.dir/|Unity/", "", output).split("/") if part != "__"]
    if len(parts) == 1:
        return "engine and libraries"
    depth = 2 if parts[0] in ("tests", "bindings") and len(parts) > 2 else 1
    return "/".join(parts[:depth])


def build_steps(build):
    """Returns seconds by folder, from the last run of each step."""
    steps = {}  # the last step for each output; a step may have several outputs
    log = build / ".ninja_log"
    for line in log.read_text().splitlines() if log.is_file() else []:
        fields = line.split("\t")
        if len(fields) == 5:
            begin, end, _, output, command = fields
            steps[output.removeprefix(f"{build.resolve()}/")] = (int(end) - int(begin), command)
    once = {ran: output for output, ran in steps.items()}
    return by_folder((step_folder(output), milliseconds / 1000) for (milliseconds, _), output in once.items())


def test_seconds(build):
    """Returns seconds by test, from the last run of each test."""
    costs = build / "Testing" / "Temporary" / "CTestCostData.txt"
    seconds = {}
    for line in costs.read_text().splitlines() if costs.is_file() else []:
        if line.startswith("---"):
            break
        name, _, time = line.rsplit(" ", 2)
        seconds[name] = float(time)
    return seconds


def test_folders(build):
    """Returns the folder of each test below tests/."""
    listed = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, capture_output=True)
    described = json.loads(listed.stdout)
    nodes, files = described["backtraceGraph"]["nodes"], described["backtraceGraph"]["files"]
    folders = {}
    for test in described["tests"]:
        node = nodes[test["backtrace"]]
        while "parent" in node:
            node = nodes[node["parent"]]
            path = pathlib.Path(files[node["file"]])
            if path.name == "CMakeLists.txt" and "tests" in path.parts:
                folders[test["name"]] = path.parent.relative_to(path.parents[len(path.parts) - path.parts.index("tests") - 2])
    return {name: str(folder) for name, folder in folders.items()}


def by_folder(pairs):
    sums = collections.Counter()
    for folder, time in pairs:
        sums[folder] += time
    return sums


def show(what, sums):
    total = sum(sums.values())
    print(f"{what}: {total:.0f} s")
    for folder, time in sums.most_common():
        if time >= LEAST_SHARE * total:
            print(f"  {time:6.0f} s  {folder}")


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    tests, folders = test_seconds(build), test_folders(build)
    show("steps of the build", build_steps(build))
    show("tests", by_folder((folders.get(name, "other"), time) for name, time in tests.items()))
    print("the slowest tests")
    for name, time in sorted(tests.items(), key=lambda test: -test[1])[:SLOWEST]:
        print(f"  {time:6.0f} s  {name}")


if __name__ == "__main__":
    main()
