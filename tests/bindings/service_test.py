#!/usr/bin/env python3
"""Drives a training service over HTTP, the same way in each language.

    service_test.py COMMAND...

COMMAND DIRECTORY PORT starts the service of one language's examples. Each test starts it on a new folder, as a user
would, and checks only responses, files and exit codes. The tests need only Python's standard library."""

import json
import resource
import signal
import sys
import threading
import unittest

import service_process
from service_limits import ServiceLimitsTest  # noqa: F401: unittest finds it here
from service_process import ServiceCase, job


class ServiceTest(ServiceCase):
    def test_a_job_from_post_to_download(self):
        service = self.start()
        self.assertEqual(service.json("GET", "/jobs"), (200, {"jobs": []}))
        status, answer = service.post(job("first"))
        self.assertEqual((status, answer), (201, {"name": "first", "state": "queued"}))
        state = service.wait_for("first", "done")
        self.assertEqual((state["step"], state["total_steps"], state["error"]), (12, 12, None))

        rows = service.metrics("first")
        self.assertEqual([row["step"] for row in rows], list(range(1, 13)))
        self.assertEqual(rows[-1]["loss"], state["loss"])
        self.assertLess(rows[-1]["loss"], rows[0]["loss"])
        for row in rows:
            self.assertGreater(row["tokens_per_second"], 0)
            self.assertIn("learning_rate", row)

        status, answer = service.json("GET", "/jobs/first/model")
        self.assertEqual(status, 200)
        sizes = {file["name"]: file["bytes"] for file in answer["files"]}
        self.assertIn("config.json", sizes)
        self.assertTrue(any(name.endswith(".safetensors") for name in sizes), sizes)
        for name, size in sizes.items():
            status, kind, body = service.request("GET", f"/jobs/first/model/{name}")
            self.assertEqual((status, kind, len(body)), (200, "application/octet-stream", size))
            self.assertEqual(body, (self.folder / "first" / "model" / name).read_bytes())
        self.assertEqual(service.end(), 0)

    def test_metrics_follow_a_running_job(self):
        service = self.start()
        service.post(job("long", steps=100000))
        connection = service.connection()
        connection.request("GET", "/jobs/long/metrics")
        answer = connection.getresponse()
        steps = [json.loads(answer.readline())["step"] for _ in range(20)]
        self.assertEqual(steps, list(range(1, 21)))
        self.assertEqual(service.get("long")["state"], "running")
        status, state = service.json("POST", "/jobs/long/cancel")
        self.assertEqual((status, state["name"]), (202, "long"))
        rest = answer.read().splitlines()  # ends because the job has ended
        connection.close()
        state = service.wait_for("long", "cancelled")
        self.assertEqual(20 + len(rest), state["step"])
        self.assertRefused(service.json("POST", "/jobs/long/cancel"), 409)
        self.assertRefused(service.json("GET", "/jobs/long/model"), 409)

    def test_jobs_run_one_after_the_other(self):
        service = self.start()
        for name in ("one", "two", "three"):
            self.assertEqual(service.post(job(name, steps=100000))[0], 201)
        service.wait_for("one", "running")
        self.assertEqual(service.get("two")["state"], "queued")
        self.assertEqual(service.json("POST", "/jobs/two/cancel")[0], 202)
        self.assertEqual(service.get("two")["state"], "cancelled")  # at once, though "one" still runs
        service.json("POST", "/jobs/one/cancel")
        service.wait_for("three", "running")
        states = {entry["name"]: entry["state"] for entry in service.json("GET", "/jobs")[1]["jobs"]}
        self.assertEqual(states, {"one": "cancelled", "two": "cancelled", "three": "running"})
        service.json("POST", "/jobs/three/cancel")
        service.wait_for("three", "cancelled")

    def test_a_name_is_taken_once(self):
        service = self.start()
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(service.post(job("twice")))) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(status for status, _ in answers), [201] + 5 * [409])
        for answer in answers:
            if answer[0] == 409:
                self.assertRefused(answer, 409)
        service.wait_for("twice", "done")
        self.assertRefused(service.post(job("twice")), 409)

    def test_garbage_is_refused_and_leaves_nothing(self):
        service = self.start()
        bad_learning_rate = job("bad")
        bad_learning_rate["config"]["optimizer"]["learning_rate"] = -1
        unknown_key = job("bad")
        unknown_key["config"]["modle"] = {}
        no_data = job("bad")
        no_data["config"]["data"]["path"] = str(self.folder / "not-there.txt")
        no_config = job("bad")
        del no_config["config"]
        for body in (
            b"",
            b"not json",
            b"\xff\xfe{}",
            b"[]",
            b'"text"',
            b"{" * 5000,
            job("../bad"),
            job(""),
            job("Bad"),
            job("b" * 65),
            job(7),
            job("bad", checkpoint_every=0),
            job("bad", checkpoint_every="5"),
            job("bad", checkpoint_every=2**63 - 1),
            job("bad", checkpoint_every=2**63),
            job("bad", checkpoint_every=10**30),
            job("bad", checkpoint_every=-1),
            job("bad", surprise=1),
            no_config,
            job("bad", config=[]),
            bad_learning_rate,
            unknown_key,
            no_data,
        ):
            self.assertRefused(service.post(body), 400)
        self.assertRefused(service.post(unknown_key), 400, "HWS_CONFIG_INVALID")
        self.assertIn("modle", service.post(unknown_key)[1]["error"]["message"])
        self.assertRefused(service.post(b'{"name": "' + b"x" * (1 << 20) + b'"}'), 413)
        for method, path, status in (
            ("GET", "/jobs/nobody", 404),
            ("GET", "/jobs/nobody/metrics", 404),
            ("POST", "/jobs/nobody/cancel", 404),
            ("GET", "/nothing", 404),
            ("GET", "/jobs/..%2f..%2fetc", 404),
            ("DELETE", "/jobs", 405),
            ("PUT", "/jobs/nobody", 405),
        ):
            self.assertRefused(service.json(method, path), status)
        self.assertEqual(service.json("GET", "/jobs"), (200, {"jobs": []}))
        self.assertEqual(list(self.folder.iterdir()), [])
        self.assertEqual(service.end(), 0)

    def test_a_download_stays_in_its_folder(self):
        service = self.start()
        service.post(job("first", steps=1))
        service.wait_for("first", "done")
        for name in ("../job.json", "..%2fjob.json", "%2e%2e/job.json", "/etc/passwd", "%2fetc%2fpasswd", "none"):
            self.assertRefused(service.json("GET", f"/jobs/first/model/{name}"), 404)

    def test_a_job_that_fails_does_not_stop_the_next(self):
        service = self.start()
        text = self.folder.parent / f"{self.folder.name}.txt"
        text.write_text("a text that goes away\n" * 100)
        self.addCleanup(text.unlink, missing_ok=True)
        doomed = job("doomed")
        doomed["config"]["data"]["path"] = str(text)
        service.post(job("busy", steps=100000))
        service.wait_for("busy", "running")
        self.assertEqual(service.post(doomed)[0], 201)
        service.post(job("next"))
        text.unlink()
        service.json("POST", "/jobs/busy/cancel")
        state = service.wait_for("doomed", "failed")
        self.assertEqual(state["error"]["code"], "HWS_NOT_FOUND")
        self.assertIn(text.name, state["error"]["message"])
        service.wait_for("next", "done")
        self.assertEqual(service.metrics("doomed"), [])

    def go_on(self, how):
        """Runs a job that begins in one process and ends in another; returns the exit code, rows and weights."""
        service = self.start()
        service.post(job("whole", steps=600, checkpoint_every=50))
        service.wait_for("whole", "done")
        service.post(job("cut", steps=600, checkpoint_every=50))
        service.post(job("waiting", steps=3))
        connection = service.connection()
        connection.request("GET", "/jobs/cut/metrics")
        answer = connection.getresponse()
        for _ in range(17):
            answer.readline()
        code = service.end(how)
        connection.close()
        self.assertEqual(json.loads((self.folder / "cut" / "job.json").read_text())["state"], "running")
        service = self.start()
        state = service.wait_for("cut", "done")
        self.assertEqual(state["step"], 600)
        service.wait_for("waiting", "done")
        rows, whole = service.metrics("cut"), service.metrics("whole")
        self.assertEqual([row["step"] for row in rows], list(range(1, 601)))
        self.assertEqual([row["loss"] for row in rows], [row["loss"] for row in whole])
        for path in (self.folder / "whole" / "model").glob("*.safetensors"):
            self.assertEqual(path.read_bytes(), (self.folder / "cut" / "model" / path.name).read_bytes())
        return code

    def test_a_restart_goes_on_with_unfinished_jobs(self):
        self.assertEqual(self.go_on(signal.SIGTERM), 0)

    def test_a_killed_service_goes_on_from_the_newest_checkpoint(self):
        self.assertEqual(self.go_on(signal.SIGKILL), -signal.SIGKILL)

    def test_interrupt_from_the_keyboard_ends_it_as_well(self):
        service = self.start()
        service.post(job("long", steps=100000))
        service.wait("long", lambda state: state["step"] > 2)
        self.assertEqual(service.end(signal.SIGINT), 0)
        self.assertEqual(json.loads((self.folder / "long" / "job.json").read_text())["state"], "running")

    def test_a_disk_without_room(self):
        service = self.start()
        self.assertRefused(service.post(job("first", config={"modle": {}})), 400)
        service.limit_files(64)
        self.assertRefused(service.post(job("first")), 507)
        self.assertEqual(service.json("GET", "/jobs"), (200, {"jobs": []}))
        self.assertEqual(list(self.folder.iterdir()), [])
        service.limit_files(4096)  # enough for a job, not for its checkpoints
        self.assertEqual(service.post(job("first"))[0], 201)
        state = service.wait_for("first", "failed")
        self.assertEqual(state["error"]["code"], "HWS_IO")
        service.limit_files(resource.RLIM_INFINITY)
        self.assertEqual(service.post(job("second"))[0], 201)
        service.wait_for("second", "done")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    service_process.COMMAND[:] = sys.argv[1:]
    unittest.main(argv=sys.argv[:1], verbosity=2)
