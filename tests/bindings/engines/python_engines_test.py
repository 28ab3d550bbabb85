"""Tests hawser.ray, hawser.spark and hawser.dask with real Ray, Spark and Dask on this machine. One of two ranks is
killed; the run continues, and ends bit-identical to a manual resume from the same checkpoint.

    python_engines_test.py ray|spark|dask [TEST]...     (skipped, 77, without the package; prints its actions)
"""

import array
import importlib.util
import json
import os
import pathlib
import signal
import sys
import tempfile
import threading
import time
import unittest

import hawser

ENGINE = sys.argv[1]
if importlib.util.find_spec({"ray": "ray", "spark": "pyspark", "dask": "distributed"}[ENGINE]) is None:
    sys.exit(77)
STEPS, LOST_AT, EVERY = 60, 23, 10


def kill_at(engine, step):
    while engine.progress().step < step:
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)


def tensors(checkpoint):
    return {path.name: path.read_bytes() for path in checkpoint.glob("*.safetensors")}


class Engines(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if ENGINE == "ray":
            import ray

            import hawser.ray

            ray.init(num_cpus=2, include_dashboard=False, logging_level="ERROR", object_store_memory=80 << 20)
            cls.addClassCleanup(ray.shutdown)
            cls.train = staticmethod(hawser.ray.train)
        elif ENGINE == "dask":
            from distributed import Client, LocalCluster

            import hawser.dask

            cluster = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
            cls.addClassCleanup(cluster.close)
            client = Client(cluster)
            cls.addClassCleanup(client.close)
            cls.train = staticmethod(lambda *words, **named: hawser.dask.train(client, *words, **named))
        else:
            from pyspark.sql import SparkSession

            import hawser.spark

            os.environ["PYSPARK_PYTHON"] = sys.executable
            cls.session = (
                SparkSession.builder.master("local-cluster[2,1,1024]")
                .config("spark.ui.enabled", "false")
                .config("spark.driver.host", "127.0.0.1")
                .config("spark.driver.bindAddress", "127.0.0.1")
                .config("spark.barrier.sync.timeout", "60")
                .getOrCreate()
            )
            cls.session.sparkContext.setLogLevel("OFF")
            cls.addClassCleanup(cls.session.stop)
            cls.train = staticmethod(lambda *words, **named: hawser.spark.train(cls.session, *words, **named))

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        (self.path / "text").write_text("the quick brown fox jumps over the lazy dog. " * 100)

    def config(self, checkpoints="checkpoints"):
        return {
            "seed": 7,
            "cpu": {"threads": 1},
            "model": {"layers": 2, "width": 64, "heads": 4, "context": 64},
            "data": {"path": str(self.path / "text"), "format": "text", "vocabulary": "bytes"},
            "batch": {"micro_batch": 2, "global_batch": 8},
            "optimizer": {"learning_rate": 0.01},
            "mesh": {"dp_shard": 2},
            "zero": {"stage": 2},
            "checkpoint": {"path": str(self.path / checkpoints), "every": EVERY, "keep_last": 1000},
            "train": {"steps": STEPS},
        }

    def test_a_killed_rank_ends_in_the_bits_of_a_direct_resume(self):
        mark, rows = self.path / "killed", self.path / "rows"

        def setup(engine, rank):
            if rank == 1 and not mark.exists():
                mark.touch()
                threading.Thread(target=kill_at, args=(engine, LOST_AT), daemon=True).start()

        def callback(record):
            with open(rows, "a") as file:
                file.write(json.dumps([record.step, record.loss]) + "\n")

        began = time.monotonic()
        result = self.train(self.config(), ranks=2, setup=setup, callback=callback)
        print(f"{ENGINE}: {result}, {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.assertEqual((result["step"], result["ranks"], len(result["losses"])), (STEPS, 2, 1))
        self.assertGreaterEqual(result["began"], LOST_AT - EVERY)
        steps = [json.loads(line) for line in rows.read_text().splitlines()]
        self.assertEqual([step for step, _ in steps][-(STEPS - result["began"]) :], list(range(result["began"] + 1, STEPS + 1)))
        self.assertEqual(result["loss"], steps[-1][1])

        config = hawser.Config(self.config("direct")).fit_ranks(2)
        with hawser.Engine(config, ranks=2) as engine:
            engine.load(self.path / "checkpoints" / f"step-{result['began']}")
            engine.train()
        ours, direct = (tensors(self.path / folder / f"step-{STEPS}") for folder in ("checkpoints", "direct"))
        self.assertTrue(direct)
        self.assertEqual(ours, direct)

    def test_an_error_that_would_come_again_is_raised(self):
        config = self.config()
        config["data"]["path"] = str(self.path / "not-there")
        with self.assertRaisesRegex(hawser.NotFound, "not-there"):
            self.train(config, ranks=2)

    def test_an_error_of_setup_is_raised(self):
        def setup(engine, rank):
            raise ZeroDivisionError("of setup")

        with self.assertRaisesRegex(Exception, "of setup"):
            self.train(self.config(), ranks=2, setup=setup)

    @unittest.skipUnless(ENGINE == "spark", "of Spark")
    def test_tokens_of_a_frame(self):
        import hawser.spark

        rows = [list(range(i, i + 20)) for i in range(50)]
        frame = self.session.createDataFrame([(row,) for row in rows], ["tokens"])
        count = hawser.spark.write_tokens(frame, "tokens", self.path / "tokens.u32", separator=99)
        self.assertEqual(count, 50 * 21)
        written = array.array("I", (self.path / "tokens.u32").read_bytes())
        self.assertEqual(written.tolist(), [token for row in rows for token in (*row, 99)])
        config = self.config()
        config["model"]["vocab_size"] = 100
        config["data"] = {"path": str(self.path / "tokens.u32"), "format": "tokens", "token_type": "u32", "separator": 99}
        result = self.train(config, ranks=2)
        self.assertEqual((result["step"], result["losses"]), (STEPS, []))
        direct = hawser.Config({**config, "checkpoint": {}})
        with hawser.Engine(direct, ranks=2) as engine:
            engine.train()
            self.assertEqual(engine.progress().loss, result["loss"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:], verbosity=2)
