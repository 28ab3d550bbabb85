#!/usr/bin/env python3
"""Measures the mutation score of the tests: plants one bug at a time and reports which test catches it.

Each file of bugs/ is a typical bug of distributed training (planting.py describes the files). This script works in a
copy of the tree in a temporary directory, never in the tree itself. It plants a bug, builds the tests, runs them until
the first one fails, and removes the bug again. It prints a table and a score: bugs caught / bugs planted. A bug that
hangs or crashes the tests counts as caught, and the table shows this.

    run.py              all bugs; about an hour on two cores, less with ccache
    run.py --only 7 12  only these bugs
    run.py --tenth 3    every tenth bug, from the fourth on
    run.py --check      only checks that all bugs can still be planted (CI runs this)
"""
import argparse
import filecmp
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from planting import NotPlanted, edits_of, planted

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FEWEST_BUGS = 24
MOST_ADDED_LINES = 8  # the limit for a bug

# The tests, cheapest first. Tests of deadlines are left out, because on a busy machine they would fail for any bug.
TESTS = [
    ("plan_memory_plan_test", []),
    ("plan_waits_test", []),
    ("nn_rope_table_test", []),
    ("plan_serial_test", []),
    ("data_test", ["--gtest_filter=Pairs*"]),
    ("text_test", ["--gtest_filter=*Pair*:TrainingRow*"]),
    ("kernels_ordered_sum_test", []),
    ("mesh_test", ["--gtest_filter=FlatShard.*:ElementRun.*"]),
    ("parallel_shard_layout_test", []),
    ("parallel_state_layout_test", []),
    ("parallel_tensor_cut_test", []),
    ("random_rounding_test", []),
    ("cut_checkpoint_test", []),
    ("model_sums_test", []),
    ("parallel_tensor_parallel_test", []),
    ("parallel_context_parallel_test", []),
    ("plan_flow_test", []),
    ("pipeline_schedule_test", []),
    ("pipeline_test", []),
    ("recompute_test", []),
    ("kernels_op_cases_test", ["--gtest_filter=*rout*:*rows*:*grouped*:*expert*"]),
    ("nn_nf4_test", []),
    ("nn_adapter_test", []),
    ("nn_block_gradient_test", ["--gtest_filter=*expert*:*adapter*"]),
    ("hf_folder_test", ["--gtest_filter=*Experts*"]),
    ("optim_test", []),
    ("pair_objective_test", []),
    ("references_test", []),
    ("parallel_mixture_test", []),
    ("parallel_adapter_test", []),
    ("parallel_objective_test", []),
    ("parallel_expert_parallel_test", []),
    ("parallel_expert_load_test", []),
    ("parallel_data_parallel_test", []),
    ("parallel_reductions_test", []),
    ("parallel_zero_test", []),
    ("agreement_test", []),
    ("together_test", []),
    ("serial_replay_test", []),
    ("ledger_test", []),
    ("ranks_engine_test", []),
    ("layout_matrix_test", []),
    ("process_ranks_test", []),
    ("comm_test", ["--gtest_filter=-*Failures*"]),
]
RACE = "Race: "  # a bug with such a line may need several runs of the tests
RACE_RUNS = 5


def title(bug):
    return bug.read_text().split("\n", 1)[0]


def check(bugs):
    """Returns the problems of the bug files as texts; empty if there are none."""
    wrong = []
    if len(bugs) < FEWEST_BUGS:
        wrong.append(f"{len(bugs)} bugs; at least {FEWEST_BUGS} are expected")
    for bug in bugs:
        text = bug.read_text()
        edits = edits_of(text)
        if not title(bug).strip() or edits_of("\n" + title(bug)):
            wrong.append(f"{bug.name}: the first line must say what the bug models")
        if not edits or sum(len(edit.added) for edit in edits) > MOST_ADDED_LINES:
            wrong.append(f"{bug.name}: a bug has an edit, and at most {MOST_ADDED_LINES} lines with +")
        try:
            files = planted(ROOT, text)
            if any(code == (ROOT / file).read_text() for file, code in files.items()):
                wrong.append(f"{bug.name}: it changes nothing")
        except NotPlanted as error:
            wrong.append(f"{bug.name}: {error}; plant the same bug in the code as it is now")
    return wrong


class Workshop:
    """A copy of the tree with a build of the tests."""

    def __init__(self, folder, jobs, timeout):
        self.tree = folder
        self.build_folder = folder / "build"  # the same relative path as in the tree, so that ccache can reuse objects
        self.jobs, self.timeout = jobs, timeout
        self.env = {**os.environ, "CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}

    def copy_tree(self):
        """Copies the working tree: tracked and new files, but no ignored files. Files that are equal are not copied
        again, so that only changed files are built again."""
        listed = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], cwd=ROOT, check=True,
                                capture_output=True).stdout
        wanted = {file for file in listed.decode().split("\0") if file and (ROOT / file).is_file()}
        for old in self.tree.rglob("*"):
            if old.is_file() and self.build_folder not in old.parents and str(old.relative_to(self.tree)) not in wanted:
                old.unlink()
        for file in wanted:
            target = self.tree / file
            if target.is_file() and filecmp.cmp(ROOT / file, target, shallow=False):
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / file, target)  # does not copy the time: a restored file must be built again

    def build(self):
        """Builds the tests. Returns None, or the end of the compiler's output if the build fails."""
        if not (self.build_folder / "build.ninja").exists():
            subprocess.run(["cmake", "-S", self.tree, "-B", self.build_folder, "-G", "Ninja"], env=self.env,
                           check=True, stdout=subprocess.DEVNULL)
        known = (self.build_folder / "build.ninja").read_text()
        self.tests = TESTS
        targets = [binary for binary, _ in self.tests]
        built = subprocess.run(["ninja", "-C", self.build_folder, f"-j{self.jobs}", *targets], env=self.env,
                               text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return None if built.returncode == 0 else built.stdout[-3000:]

    def run_test(self, binary, options):
        """Runs a test program. Returns None if all tests pass, otherwise the test that failed and how."""
        command = [self.build_folder / "tests" / binary, "--gtest_fail_fast", *options]
        # The tests run in a session of their own, so that all their processes can be killed together.
        process = subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   errors="replace", start_new_session=True)
        try:
            output, _ = process.communicate(timeout=self.timeout)
            ending = ""
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output, _ = process.communicate()
            ending = f" (hangs: no answer in {self.timeout} s)"
        except BaseException:  # this script is ending
            os.killpg(process.pid, signal.SIGKILL)
            raise
        if process.returncode == 0:
            return None
        failed = re.search(r"\[  FAILED  \] ([\w./]+)", output)
        if failed:
            return f"`{failed[1]}`"
        if not ending:
            code = process.returncode
            ending = f" (crashes: {signal.Signals(-code).name})" if code < 0 else " (ends early)"
        begun = re.findall(r"\[ RUN      \] ([\w./]+)", output)
        return f"`{begun[-1] if begun else binary}`{ending}"

    def first_failure(self, runs):
        for _ in range(runs):
            for binary, options in self.tests:
                failure = self.run_test(binary, options)
                if failure:
                    return failure
        return None

    def try_bug(self, bug):
        """Returns (the failure that caught the bug or None, seconds). Raises RuntimeError if the bug cannot be planted
        or does not build."""
        begin = time.monotonic()
        text = bug.read_text()
        try:
            files = planted(self.tree, text)
        except NotPlanted as error:
            raise RuntimeError(f"{bug.name}: {error}") from error
        without = {file: (self.tree / file).read_text() for file in files}
        try:
            for file, code in files.items():
                (self.tree / file).write_text(code)
            broken = self.build()
            if broken:
                raise RuntimeError(f"{bug.name} does not build:\n{broken}")
            runs = RACE_RUNS if f"\n{RACE}" in text else 1
            return self.first_failure(runs), time.monotonic() - begin
        finally:
            for file, code in without.items():
                (self.tree / file).write_text(code)


def score(workshop, bugs):
    workshop.copy_tree()
    broken = workshop.build()
    if broken:
        sys.exit(f"the tree does not build without a bug:\n{broken}")
    failure = workshop.first_failure(1)
    if failure:
        sys.exit(f"{failure} fails without a bug; the score would mean nothing")
    print("| bug | models | caught by |\n|---|---|---|", flush=True)
    caught = planted = 0
    for bug in bugs:
        try:
            by, seconds = workshop.try_bug(bug)
        except RuntimeError as error:
            print(f"| {bug.stem} | {title(bug)} | NO MUTANT: see below |", flush=True)
            print(error, file=sys.stderr, flush=True)
            continue
        planted += 1
        caught += by is not None
        print(f"| {bug.stem} | {title(bug)} | {by or '**SURVIVED**'} |", flush=True)
        print(f"{bug.stem}: {seconds:.0f} s", file=sys.stderr, flush=True)
    print(f"\nScore: {caught} of {planted} ({100 * caught / max(planted, 1):.0f} %)")
    return caught == len(bugs)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only check that every bug can be planted")
    parser.add_argument("--only", nargs="+", type=int, metavar="NN", help="only the bugs with these numbers")
    parser.add_argument("--tenth", type=int, choices=range(10), metavar="N", help="every tenth bug, from number N on")
    parser.add_argument("--build", type=Path, metavar="DIR",
                        help="work in DIR, a folder of this script's own, and keep it: the next run builds less")
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time (default 2)")
    parser.add_argument("--timeout", type=int, default=180, help="seconds for one test binary (default 180)")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that running tests end too
    bugs = sorted((HERE / "bugs").glob("*.bug"))
    wrong = check(bugs)
    if wrong:
        print("\n".join(wrong))
        return 1
    if args.check:
        print(f"{len(bugs)} bugs can be planted")
        return 0
    if args.only:
        bugs = [bug for bug in bugs if int(bug.stem.split("-")[0]) in args.only]
    if args.tenth is not None:
        bugs = bugs[args.tenth::10]
    if args.build:
        args.build.mkdir(parents=True, exist_ok=True)
        if any(args.build.iterdir()) and not (args.build / "build" / "build.ninja").exists():
            sys.exit(f"{args.build} is neither empty nor left by this script: give another folder")
        if (args.build / ".git").exists():
            sys.exit(f"{args.build} is a checkout: give a folder of its own")
        return 0 if score(Workshop(args.build.resolve(), args.jobs, args.timeout), bugs) else 1
    with tempfile.TemporaryDirectory(prefix="hawser-mutation-") as folder:
        return 0 if score(Workshop(Path(folder), args.jobs, args.timeout), bugs) else 1


if __name__ == "__main__":
    sys.exit(main())
