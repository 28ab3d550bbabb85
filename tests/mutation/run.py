#!/usr/bin/env python3
"""Measures the mutation score of the tests: plants one bug at a time and runs the test that should catch it.

Each file of bugs/ is a typical bug of distributed training (planting.py describes the files). It names the test that
catches it. This script needs a build folder of Ninja. It brings the tests that it runs up to date there, and then
changes neither the tree nor the build: it plants a bug in a copy of the file, compiles what includes the file,
links the test's program with these objects, and runs the test, all in a temporary directory. It prints a table and a
score: bugs caught / bugs planted. A bug that hangs or crashes the test counts as caught, and the table shows this.

    run.py              all bugs
    run.py --only 7 12  only these bugs, by number
    run.py --part 3     every twentieth bug, from the fourth on (--part day: from another one each day), without those in
                        headers, for which many files are compiled
    run.py --check      only checks that all bugs can still be planted
"""
import argparse
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from planting import NotPlanted, edits_of, planted

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FEWEST_BUGS = 100
PARTS = 20
MOST_ADDED_LINES = 8  # the limit for a bug
CAUGHT_BY = re.compile(r"^Caught by: (\w+)(?: (\S+))?$", re.M)
RACE = "\nRace: "  # a bug with such a line may need several runs of its test
RACE_RUNS = 5
MOST_SECONDS = 300  # of a test without a bug
SKIPPED = 77


def title(bug):
    return bug.read_text().split("\n", 1)[0]


def number(bug):
    return int(bug.stem.split("-")[0])


def caught_by(bug):
    """Returns the name of a test of ctest, and a filter of GoogleTest or None."""
    return CAUGHT_BY.search(bug.read_text()).groups()


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
        if len(CAUGHT_BY.findall(text)) != 1:
            wrong.append(f"{bug.name}: one line must name the test that catches it: Caught by: TEST [FILTER]")
        if not edits or sum(len(edit.added) for edit in edits) > MOST_ADDED_LINES:
            wrong.append(f"{bug.name}: a bug has an edit, and at most {MOST_ADDED_LINES} lines with +")
        try:
            files = planted(ROOT, text)
            if any(code == (ROOT / file).read_text() for file, code in files.items()):
                wrong.append(f"{bug.name}: it changes nothing")
        except NotPlanted as error:
            wrong.append(f"{bug.name}: {error}; plant the same bug in the code as it is now")
    return wrong


class NoMutant(Exception):
    """The bug cannot be tried, for example because it does not build."""


class NoTest(Exception):
    """The build does not contain the bug's test, for example because it was configured without the text module."""


class Test:
    """A test of ctest, with a filter if the bug names one."""

    def __init__(self, described, only):
        command = described["command"]
        properties = {item["name"]: item["value"] for item in described["properties"]}
        self.program = Path(command[0])
        self.arguments = [*command[1:], *([f"--gtest_filter={only}", "--gtest_fail_fast"] if only else [])]
        self.folder = properties["WORKING_DIRECTORY"]
        self.variables = dict(item.split("=", 1) for item in properties.get("ENVIRONMENT", []))

    def run(self, program, timeout):
        """Returns None if the test passes with this program, otherwise what failed and how."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("GTEST_")}
        with tempfile.TemporaryDirectory(prefix="hawser-mutation-") as files:
            # The test runs in a session of its own, so that all its processes can be killed together.
            process = subprocess.Popen([program, *self.arguments], text=True, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, errors="replace", start_new_session=True,
                                       cwd=self.folder, env={**variables, **self.variables, "TMPDIR": files})
            try:
                output, _ = process.communicate(timeout=timeout)
                ending = ""
            except subprocess.TimeoutExpired:
                output, ending = "", f" (hangs: no answer in {timeout:.0f} s)"
            finally:
                try:
                    os.killpg(process.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                process.wait()
        if process.returncode == 0:
            return "no case has this name" if "Running 0 tests" in output else None
        failed = re.search(r"\[  FAILED  \] ([\w./]+)", output)
        if failed:
            return f"`{failed[1]}`"
        if not ending:
            code = process.returncode
            ending = f" (crashes: {signal.Signals(-code).name})" if code < 0 else " (fails)"
        begun = re.findall(r"\[ RUN      \] ([\w./]+)", output)
        return f"`{begun[-1] if begun else self.program.name}`{ending}"


class Build:
    """A build folder, which is only read after bring_up_to_date."""

    def __init__(self, folder):
        self.folder = folder
        self.sound = {}  # of each test: how it fails without a bug, and its seconds
        self.lock = threading.Lock()

    def ninja(self, *arguments):
        command = ["ninja", "-C", self.folder, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def bring_up_to_date(self, names, jobs):
        """Builds the programs of tests and reads what the folder says about them."""
        programs = set()
        for listed in self.folder.rglob("CTestTestfile.cmake"):  # ctest lists no command of a program that is not built
            for name, program in re.findall(r'^add_test\(\[=\[(\w+)\]=\] "([^"]+)"', listed.read_text(), re.M):
                if name in names and self.folder in Path(program).parents:
                    programs.add(str(Path(program).relative_to(self.folder)))
        self.ninja(f"-j{jobs}", *sorted(programs))
        listed = subprocess.run(["ctest", "--test-dir", self.folder, "--show-only=json-v1"], check=True,
                                capture_output=True)
        self.tests = {test["name"]: test for test in json.loads(listed.stdout)["tests"]}
        self.inputs = {}  # of each object: the files that it was compiled from
        output = None
        for line in self.ninja("-t", "deps").splitlines():
            if line.startswith("    "):
                self.inputs[output].add(os.path.normpath(self.folder / line.strip()))
            elif ":" in line:
                output = line.split(":")[0]
                self.inputs[output] = set()

    def test_of(self, bug):
        name, only = caught_by(bug)
        if name not in self.tests:
            raise NoTest(f"the build has no test {name}")
        return Test(self.tests[name], only)

    def seconds_without_bug(self, test):
        """Returns how long the test takes without a bug. Raises NoMutant if it fails. Each test runs once."""
        with self.lock:
            key = (test.program, *test.arguments)
            mine = key not in self.sound
            sound = self.sound.setdefault(key, concurrent.futures.Future())
        if mine:
            begin = time.monotonic()
            failure = test.run(test.program, MOST_SECONDS)
            sound.set_result((failure, time.monotonic() - begin))
        failure, seconds = sound.result()
        if failure:
            raise NoMutant(f"without a bug its test fails: {failure}")
        return seconds

    def shell(self, command):
        done = subprocess.run(command, shell=True, cwd=self.folder, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if done.returncode != 0:
            raise NoMutant(f"it does not build:\n{done.stdout[-3000:]}")

    def mutant(self, bug, test, place, alone):
        """Builds the test's program with the bug in `place`, and returns its path.

        An object of the library is compiled from many sources. With `alone`, the source with the bug is compiled
        without the others, which takes a fifth of the time, and its functions replace those of the library. Calls
        that another source has inlined do not have the bug. Returns None if `alone` is impossible.
        """
        changed = {}  # the path of a file: the path of its copy with the bug
        for file, code in planted(ROOT, bug.read_text()).items():
            copy = place / "tree" / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(code)
            changed[str(ROOT / file)] = str(copy)
        target = str(test.program.relative_to(self.folder))
        *steps, link = self.ninja("-t", "commands", target).splitlines()
        objects = {}
        for step in steps:
            parts = re.search(r" -o (\S+\.o) -c (\S+)$", step)
            if not parts or changed.keys().isdisjoint(self.inputs.get(parts[1], ())):
                continue
            source = parts[2]
            if alone:
                source = self.only_source(source, changed)
                if not source:
                    return None
            objects[parts[1]] = self.compile(step, parts[1], source, changed, place)
            if alone and self.has_variables(objects[parts[1]]):
                return None
        if not objects:
            raise NoMutant(f"{target} does not contain the code")
        words = shlex.split(link.removeprefix(": && ").removesuffix(" && :"))
        program = place / "program" / test.program.name
        program.parent.mkdir()
        for file in test.program.parent.iterdir():  # the test may look for files beside its program
            if file != test.program:
                (program.parent / file.name).symlink_to(file)
        words[words.index("-o") + 1] = str(program)
        own = [word for word in words if word in objects]
        words = [objects.get(word, word) for word in words]
        archive = next((i for i, word in enumerate(words) if word.endswith(".a")), None)
        if archive is None:
            raise NoMutant(f"{target} does not link the library statically")
        # A linker takes no object from a library whose symbols it already has, so these objects replace the library's.
        words[archive:archive] = [path for name, path in objects.items() if name not in own]
        if alone:
            words.insert(1, "-Wl,--allow-multiple-definition")  # the linker takes the first
        self.shell(shlex.join(words))
        return program

    @staticmethod
    def only_source(joined, changed):
        """Returns the changed file if it is the only one that `joined` includes, otherwise None."""
        included = re.findall(r'^#include "(/[^"]+)"', Path(joined).read_text(), re.M)
        sources = [file for file in included if file in changed]
        return sources[0] if len(changed) == len(sources) == 1 else None

    @staticmethod
    def has_variables(compiled):
        """True if the object has variables that would exist twice: beside its own, those of the library."""
        symbols = subprocess.run(["objdump", "-t", compiled], check=True, capture_output=True, text=True).stdout
        # The linker merges weak (w) and unique (u) symbols, as inline variables are; relro sections are constant.
        return bool(re.search(r"^\S+ [lg][^w]....O \.(?:data(?!\.rel\.ro)|bss|tdata|tbss)", symbols, re.M))

    @staticmethod
    def renamed(text, changed):
        for file, copy in changed.items():
            text = text.replace(f'"{file}"', f'"{copy}"')
        return text

    def compile(self, step, output, source, changed, place):
        compiled = place / output.replace("/", "_")
        if source in changed:
            source = changed[source]
        else:  # perhaps a file that includes several sources
            text = Path(source).read_text()
            renamed = self.renamed(text, changed)
            if renamed != text:
                source = place / f"{compiled.stem}.cc"
                source.write_text(renamed)
        # A precompiled header may contain the file without the bug.
        words = shlex.split(re.sub(r" -MD -MT \S+ -MF \S+| -include \S+/cmake_pch\.hxx", "", step))
        if Path(words[0]).name == "ccache":  # nobody compiles a bug twice
            words = words[1:]
        words = [words[0], f"-I{place}/tree", *words[1:words.index("-o")], "-w", "-o", str(compiled), "-c", str(source)]
        self.shell(shlex.join(words))
        return str(compiled)

    def try_bug(self, bug):
        """Returns (the failure that caught the bug or None, seconds). Raises NoMutant or NoTest."""
        begin = time.monotonic()
        test = self.test_of(bug)
        patience = 20 + 4 * self.seconds_without_bug(test)
        failure = None
        for alone in (True, False):  # a bug that survives because a call was inlined is built again with all sources
            with tempfile.TemporaryDirectory(prefix="hawser-mutation-") as folder:
                program = self.mutant(bug, test, Path(folder), alone)
                for _ in range(RACE_RUNS if RACE in bug.read_text() else 1) if program else ():
                    failure = failure or test.run(program, patience)
            if failure:
                break
        return failure, time.monotonic() - begin


def score(build, bugs, jobs):
    try:
        build.bring_up_to_date({caught_by(bug)[0] for bug in bugs}, jobs)
    except subprocess.CalledProcessError as error:
        sys.exit(f"the tests do not build without a bug:\n{error.stdout[-3000:]}")
    caught = tried = broken = 0
    print("| bug | models | caught by | time |\n|---|---|---|---|", flush=True)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for bug, trial in [(bug, pool.submit(build.try_bug, bug)) for bug in bugs]:
            try:
                by, seconds = trial.result()
            except (NoMutant, NoTest) as error:
                print(f"| {bug.stem} | {title(bug)} | NOT TRIED: {error} |", flush=True)
                broken += isinstance(error, NoMutant)
                continue
            tried += 1
            caught += by is not None
            print(f"| {bug.stem} | {title(bug)} | {by or '**SURVIVED**'} | {seconds:.0f} s |", flush=True)
    print(f"\nScore: {caught} of {tried} ({100 * caught / max(tried, 1):.0f} %)")
    return caught == tried and broken == 0


def part_of(text):
    if text == "day":
        return int(os.environ.get("HAWSER_DAY") or time.time() // 86400) % PARTS
    if text not in map(str, range(PARTS)):
        raise argparse.ArgumentTypeError(f"0 to {PARTS - 1}, or day")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only check that every bug can be planted")
    parser.add_argument("--only", nargs="+", type=int, metavar="NN", help="only the bugs with these numbers")
    parser.add_argument("--part", type=part_of, metavar="N", help="every twentieth bug, from N on; day: of the day")
    parser.add_argument("--build", type=Path, default=ROOT / "build", metavar="DIR",
                        help="build folder (default build)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="bugs at a time (default: processors)")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # raises SystemExit, so that temporary files go
    bugs = sorted((HERE / "bugs").glob("*.bug"), key=number)
    wrong = check(bugs)
    if wrong:
        print("\n".join(wrong))
        return 1
    if args.check:
        print(f"{len(bugs)} bugs can be planted")
        return 0
    if args.only:
        bugs = [bug for bug in bugs if number(bug) in args.only]
    if args.part is not None:
        in_headers = [bug for bug in bugs if any(edit.file.endswith(".h") for edit in edits_of(bug.read_text()))]
        bugs = [bug for bug in bugs if bug not in in_headers][args.part::PARTS]
    build = args.build.resolve()
    if not (build / "build.ninja").is_file() or not shutil.which("ninja"):
        print(f"skipped: {build} was not configured with -G Ninja")
        return SKIPPED
    return 0 if score(Build(build), bugs, args.jobs) else 1


if __name__ == "__main__":
    sys.exit(main())
