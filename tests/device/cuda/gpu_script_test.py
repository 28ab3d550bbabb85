"""Rehearses tests/gpu.sh without a GPU. The script's programs run over the emulated GPU, and the test plants
three faults: a crash, a hang and a wrong number. failures.txt must report each fault with its evidence.
results.jsonl and table.txt must report everything that passed.

Usage:  python3 gpu_script_test.py DEVICE_TEST OP_CASES_TEST GOLDEN_CHECK LIBHAWSER PLUGIN
"""
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
CASE = "llama_linear"

SMI = """#!/bin/sh
case "$*" in
  *name,driver*) echo "emulated GPU, 1.2, 100 MiB, 1000 MHz" ;;
  *driver_version*) echo 1.2 ;;
  *memory.total*) echo 100 ;;
esac
"""
# A program that crashes after its tests have passed.
DEVICE = """#!/bin/sh
"{device_test}" --gtest_filter='*Copies*:*Memory*' || exit 1
echo "about to crash"
kill -SEGV $$
"""
# A program that lists only a few op cases.
OPS = """#!/bin/sh
case "$1" in --gtest_list_tests) set -- --gtest_list_tests --gtest_filter='*TheSameBitsTwice/add:*TheSameBitsTwice/convert' ;; esac
exec "{op_cases_test}" "$@"
"""
# Runs one golden case unchanged, and one with changed expected numbers. The other cases are left out.
GOLDEN = """#!/bin/sh
folder=$1
shift
case "$folder $*" in
  *gpt2_exact*fp32*) exec "{golden}" "$folder" "$@" ;;
  *{case}*fp32*) exec "{golden}" "{tampered}" "$@" ;;
esac
"""
TRAIN = """#!/bin/sh
case "$1" in
  --gtest_list_tests) printf 'TrainOnCuda.\\n  Hangs\\n  Passes\\n' ;;
  *Hangs) echo "step 1 of 3"; sleep 300 ;;
esac
"""
KERNELS = """#!/bin/sh
case "$1" in
  --list) echo copy ;;
  *) echo '{{"kernel": "copy", "unit": "GB/s", "value": 1, "gpu": "emulated GPU", "libraries": "none"}}' ;;
esac
"""


def tamper(folder):
    """Doubles the first number of every expected tensor of a golden case."""
    path = folder / "case.safetensors"
    data = bytearray(path.read_bytes())
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    for name, tensor in header.items():
        if name != "__metadata__" and tensor["dtype"] == "F64":
            at = 8 + length + tensor["data_offsets"][0]
            number = struct.unpack_from("<d", data, at)[0]
            struct.pack_into("<d", data, at, 2 * number + 1)
    path.write_bytes(data)


def make_programs(folder, device_test, op_cases_test, golden_check, library, plugin):
    (folder / "hawser-0").mkdir(parents=True)
    shutil.copy(library, folder / "libhawser.so.0")
    shutil.copy(plugin, folder / "hawser-0" / "libhawser_cuda.so")
    tampered = folder / CASE
    shutil.copytree(ROOT / "tests/golden/cases" / CASE, tampered)
    tamper(tampered)
    scripts = {"nvidia-smi": SMI, "device_cuda_test": DEVICE, "device_cuda_op_cases_test": OPS, "golden_check": GOLDEN,
               "device_cuda_train_test": TRAIN, "bench_gpu_kernels": KERNELS}
    for name, text in scripts.items():
        path = folder / name
        path.write_text(text.format(device_test=device_test, op_cases_test=op_cases_test, golden=golden_check,
                                    tampered=tampered, case=CASE))
        path.chmod(0o755)


def expect(what, holds, text):
    if not holds:
        sys.exit(f"{what}; got:\n{text}")


def main(*programs):
    with tempfile.TemporaryDirectory() as scratch:
        folder, out = pathlib.Path(scratch) / "programs", pathlib.Path(scratch) / "out"
        make_programs(folder, *programs)
        environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}", TMPDIR=scratch,
                           LD_LIBRARY_PATH=f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}")
        script = ["bash", "tests/gpu.sh", "--programs", folder]
        late = subprocess.run([*script, "--out", out, "--seconds", "0", "--phases", "large"], cwd=ROOT, env=environment,
                              capture_output=True, text=True)
        expect("a phase without time is named", "phase large: not started: the script's time was over" in late.stdout, late.stdout)
        run = subprocess.run([*script, "--out", out, "--seconds", "250", "--patience", "5",
                              "--phases", "device,kernels,ops,golden,train"], cwd=ROOT, env=environment, capture_output=True,
                             text=True)
        expect("the script ends with 1", run.returncode == 1, run.stdout + run.stderr)
        failures, table = (out / "failures.txt").read_text(), (out / "table.txt").read_text()
        for line in ("device_cuda_test: killed by signal 11 (SEGV); its last line: about to crash",
                     f"golden-{CASE}-fp32: status 1",
                     "device_cuda_train_test-TrainOnCuda.Hangs: ran out of time after 5 s; its last line: step 1 of 3"):
            expect(f"failures.txt lacks '{line}'", line in failures, failures)
        expect("three failures and no more", len([l for l in failures.splitlines() if not l.startswith(" ")]) == 3, failures)
        expect("the failed number is named", "FAIL" in failures, failures)
        golden = 2 * len(list((ROOT / "tests/golden/cases").glob("*/config.json")))
        expect("passed phases are counted",
               "2 of 2 passed" in run.stdout and f"{golden - 1} of {golden} passed" in run.stdout, run.stdout)
        expect("the table has failures and figures", "FAILED (3)" in table and "copy" in table, table)
        result = json.loads((out / "results.jsonl").read_text())
        expect("figures name the driver", result["driver"] == "1.2" and result["who"] == "hawser", result)
        with tarfile.open(out / "logs.tgz") as logs:
            expect("every program has its log", len(logs.getnames()) > 40, logs.getnames())
        expect("at most eight files", len(list(out.iterdir())) == 4, list(out.iterdir()))


if __name__ == "__main__":
    main(*sys.argv[1:])
