"""ServiceCase: a test case that runs a training service as a process and sends it requests. service_test.py
and service_limits.py share it."""

import http.client
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest

COMMAND = []  # the command of one language's service; service_test.py sets it
TEXT = os.path.abspath(__file__)  # a text to train on
PATIENCE = 60  # seconds to wait for an event that takes less than one on a quiet machine


def job(name, steps=12, **changes):
    """Returns a job that trains a tiny model on the bytes of this file."""
    config = {
        "seed": 7,
        "cpu": {"threads": 1},
        "model": {"vocab_size": 256, "context": 32, "layers": 2, "width": 32, "heads": 4},
        "batch": {"micro_batch": 4, "sequence": 32},
        "optimizer": {"learning_rate": 0.01},
        "data": {"format": "text", "vocabulary": "bytes", "path": TEXT},
        "train": {"steps": steps},
    }
    return {"name": name, "config": config, "checkpoint_every": 5, **changes}


class Service:
    """Runs the service as a process, and sends it requests."""

    def __init__(self, folder, *options):
        self.process = subprocess.Popen(
            [*COMMAND, str(folder), "0", *options],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
        )
        line = self.process.stdout.readline()
        if not line.startswith("listening on http://127.0.0.1:"):
            self.process.kill()
            raise AssertionError(f"the service began with {line!r}")
        self.port = int(line.rsplit(":", 1)[1])

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)

    def request(self, method, path, body=None):
        """Returns (status, content type, bytes)."""
        connection = self.connection()
        try:
            connection.request(method, path, body)
            answer = connection.getresponse()
            return answer.status, answer.headers.get_content_type(), answer.read()
        finally:
            connection.close()

    def json(self, method, path, body=None):
        """Returns (status, parsed response)."""
        text = body if body is None or isinstance(body, (bytes, str)) else json.dumps(body)
        status, kind, answer = self.request(method, path, text)
        assert kind == "application/json", (status, kind, answer)
        return status, json.loads(answer)

    def post(self, body):
        return self.json("POST", "/jobs", body)

    def get(self, name):
        status, answer = self.json("GET", f"/jobs/{name}")
        assert status == 200, answer
        return answer

    def wait(self, name, condition):
        end = time.monotonic() + PATIENCE
        while True:
            state = self.get(name)
            if condition(state):
                return state
            assert time.monotonic() < end, f"still {state}"
            time.sleep(0.02)

    def wait_for(self, name, *states):
        return self.wait(name, lambda state: state["state"] in states)

    def metrics(self, name):
        status, kind, body = self.request("GET", f"/jobs/{name}/metrics")
        assert (status, kind) == (200, "application/x-ndjson"), (status, kind, body)
        return [json.loads(line) for line in body.splitlines()]

    def limit_files(self, size):
        """Limits every file of the service to `size` bytes from now on, as if the disk were full."""
        resource.prlimit(self.process.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))

    def end(self, how=signal.SIGTERM):
        """Sends a signal, and returns the exit code."""
        self.process.send_signal(how)
        try:
            return self.process.wait(PATIENCE)
        finally:
            self.kill()

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class ServiceCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="hawser-service-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def start(self, *options):
        service = Service(self.folder, *options)
        self.addCleanup(service.kill)
        return service

    def assertRefused(self, answer, status, code=None):
        self.assertEqual(answer[0], status, answer)
        error = answer[1]["error"]
        self.assertTrue(error["message"], answer)
        self.assertIn("details", error)
        if code:
            self.assertEqual(error["code"], code, answer)
