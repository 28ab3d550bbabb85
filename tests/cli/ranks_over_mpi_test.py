"""Tests examples/ranks_over_mpi.c under Open MPI: results are bit-identical to one process, and the other ranks report
a rank that fails, is killed or is stopped.

    ranks_over_mpi_test.py RANKS_OVER_MPI HAWSER
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

EXAMPLE, COMMAND = sys.argv[1:3]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe"]


def config(ranks, **train):
    return {
        "model": {"layers": 2, "width": 32, "heads": 2, "context": 32},
        "data": {"path": "text.txt", "format": "text", "vocabulary": "bytes"},
        "batch": {"micro_batch": 1, "global_batch": 8},
        "optimizer": {"learning_rate": 0.01},
        "mesh": {"dp_shard": ranks},
        "zero": {"stage": 3},
        "train": {"steps": 8, **train},
        "comm": {"timeout_seconds": 3},
    }


def pids_of_ranks(mpirun):
    children = pathlib.Path(f"/proc/{mpirun.pid}/task/{mpirun.pid}/children").read_text().split()
    return [int(pid) for pid in children]


class RanksOverMpi(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "text.txt").write_text("the quick brown fox jumps over the lazy dog. " * 100)

    def write(self, settings):
        (self.path / "config.json").write_text(json.dumps(settings))

    def start(self, *words):
        return subprocess.Popen(
            [*MPIRUN, *words], cwd=self.path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def start_long_run(self):
        """Starts a run of two ranks, waits for its first step, and returns it with the processes of the ranks."""
        self.write(config(2, steps=1_000_000))
        # Output is line-buffered, so that the first step is visible at once.
        run = self.start("-n", "2", "stdbuf", "-oL", EXAMPLE, "config.json")
        self.addCleanup(run.kill)
        self.assertRegex(run.stdout.readline(), "^step 1: ")
        ranks = pids_of_ranks(run)
        self.assertEqual(len(ranks), 2)
        return run, ranks

    def expect_ended(self, ranks):
        """Asserts that no process of the job runs. A process may still be a zombie."""
        for pid in ranks:
            stat = pathlib.Path(f"/proc/{pid}/stat")
            self.assertTrue(not stat.exists() or ") Z " in stat.read_text(), f"process {pid} runs")

    def test_the_bits_of_one_process(self):
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                self.write(config(ranks))
                run = self.start("-n", str(ranks), EXAMPLE, "config.json")
                out, err = run.communicate(timeout=120)
                self.assertEqual(run.returncode, 0, err)
                over_mpi = [float(line.split()[-1]) for line in out.splitlines()]
                subprocess.run(
                    [COMMAND, "train", "config.json", "--out", f"run{ranks}"],
                    cwd=self.path, check=True, capture_output=True,
                )
                rows = (self.path / f"run{ranks}" / "metrics.jsonl").read_text().splitlines()
                self.assertEqual(over_mpi, [json.loads(row)["loss"] for row in rows])
                self.assertEqual(len(over_mpi), 8)

    def test_a_rank_that_fails_is_named_by_the_others(self):
        self.write(config(2))
        elsewhere = self.path / "elsewhere"  # contains the config but not the text
        elsewhere.mkdir()
        (elsewhere / "config.json").write_text((self.path / "config.json").read_text())
        run = self.start(
            "-n", "1", EXAMPLE, "config.json", ":", "-wdir", str(elsewhere), "-n", "1", EXAMPLE, "config.json"
        )
        _, err = run.communicate(timeout=60)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(err, r"(?m)^rank 1: engine: .*text\.txt")
        self.assertRegex(err, r"(?m)^rank 0: engine: .*rank 1.*text\.txt")

    def test_a_killed_rank_ends_the_job(self):
        run, ranks = self.start_long_run()
        os.kill(ranks[1], signal.SIGKILL)
        _, err = run.communicate(timeout=30)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(err, "(?s)rank 1.*signal 9")
        self.expect_ended(ranks)

    def test_a_stopped_rank_is_named_after_the_timeout(self):
        run, ranks = self.start_long_run()
        began = time.monotonic()
        os.kill(ranks[1], signal.SIGSTOP)
        _, err = run.communicate(timeout=30)
        self.assertNotEqual(run.returncode, 0)
        self.assertRegex(err, "(?m)^rank 0: train: .*rank 1")
        self.assertGreater(time.monotonic() - began, 2.5)
        self.expect_ended(ranks)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
