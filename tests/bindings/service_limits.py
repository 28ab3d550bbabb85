"""Tests that a service refuses JSON that nests too deep, requests that do not arrive in time, and configs that name
files elsewhere."""

import http.client
import json
import pathlib
import re
import shutil
import socket
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from service_process import PATIENCE, TEXT, ServiceCase, job

# The config fields that name a file or folder, as section/field. Paths in lists of sources are tested separately.
PATHS = (
    "data/path",
    "init/from",
    "init/base",
    "adapter/from",
    "objective/reference",
    "teacher/from",
    "checkpoint/path",
    "offload/folder",
    "cuda/algorithm_cache",
    "telemetry/tensorboard",
)
# All text fields of the schema by table and field: first the paths, then the other texts.
PATH_FIELDS = {"Source.path"} | {f"{at.split('/')[0].capitalize()}.{at.split('/')[1]}" for at in PATHS}
OTHER_TEXTS = {
    "ModuleRank.of",
    "ModuleAlpha.of",
    "Adapter.targets",
    "Adapter.train",
    "Init.ignore_keys",
    "OptimizerRule.of",
    "OptimizerSection.frozen",
    "Source.name",
    "Config.preset",
    "Sample.text",
    "SampleMessage.role",
    "SampleMessage.content",
}


class ServiceLimitsTest(ServiceCase):
    def test_deep_json_is_refused_and_the_service_lives(self):
        service = self.start()
        for levels in (66, 900, 5000, 100000, 490000):
            for deep in (b"[" * levels + b"]" * levels, b"[" * levels, b'{"a":' * levels + b"1" + b"}" * levels):
                if len(deep) > 1000000:
                    continue
                for body in (
                    deep,
                    b'{"name": ' + deep + b"}",
                    b'{"name": "deep", "config": ' + deep + b"}",
                    b'{"name": "deep", "config": {"model": ' + deep + b"}}",
                    b'{"name": "deep", "config": {}, "checkpoint_every": ' + deep + b"}",
                ):
                    self.assertRefused(service.post(body), 400)
        self.assertEqual(service.json("GET", "/jobs"), (200, {"jobs": []}))
        self.assertEqual(service.end(), 0)

    def test_requests_that_do_not_arrive_in_time(self):
        """Half requests, a request that arrives byte by byte, and an answer that lasts longer than requests may: the
        three wait for the same time, so they share a service."""
        service = self.start()
        slow = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
        self.addCleanup(slow.close)
        slow.sendall(b"GET /jobs HTTP/1.1\r\nX-Slow: ")
        slow.settimeout(0.5)
        service.post(job("long", steps=10**9))
        follower = service.connection()
        self.addCleanup(follower.close)
        follower.request("GET", "/jobs/long/metrics")
        metrics = follower.getresponse()
        began = time.monotonic()
        with ThreadPoolExecutor() as threads:
            waits = (threads.submit(self.half_requests, service), threads.submit(self.slow_request, slow),
                     threads.submit(self.follow, metrics, began + 13))  # fmt: skip
            for wait in waits:
                wait.result()
        service.json("POST", "/jobs/long/cancel")
        metrics.read()
        self.assertEqual(service.post(job("after", steps=2))[0], 201)
        service.wait_for("after", "done")

    def half_requests(self, service):
        """More of them than a service keeps do not keep others waiting, and all of them end."""
        halves = []
        for start in (b"", b"GET /jobs HT", b"GET /jobs HTTP/1.1\r\nHost: a\r\n", b"POST /jobs HTTP/1.1\r\nContent-Length: 9\r\n\r\n{"):
            for _ in range(20):
                half = socket.create_connection(("127.0.0.1", service.port), PATIENCE)
                self.addCleanup(half.close)
                if start:
                    half.sendall(start)
                halves.append(half)
        began = time.monotonic()
        while True:  # the first connections may fill the limit until their deadline
            try:
                self.assertEqual(service.json("GET", "/jobs")[0], 200)
                break
            except (http.client.HTTPException, ConnectionError):
                self.assertLess(time.monotonic() - began, 30)
                time.sleep(0.2)
        ended = 0
        for half in halves:
            half.settimeout(max(0.1, 40 - (time.monotonic() - began)))
            try:
                while half.recv(4096):
                    pass
                ended += 1
            except ConnectionError:
                ended += 1
            except TimeoutError:
                pass
        self.assertEqual(ended, len(halves))

    def slow_request(self, slow):
        """A byte now and then does not extend the time."""
        began, closed = time.monotonic(), False
        while not closed and time.monotonic() - began < 40:
            try:
                slow.sendall(b"x")
                closed = not slow.recv(4096)
            except TimeoutError:
                pass
            except ConnectionError:
                closed = True
        self.assertTrue(closed)

    def follow(self, metrics, end):
        """A follower of metrics outlasts the time for requests."""
        while time.monotonic() < end:
            self.assertTrue(metrics.readline())

    def test_configs_stay_below_the_allowed_root(self):
        root = pathlib.Path(tempfile.mkdtemp(prefix="hawser-root-"))
        self.addCleanup(shutil.rmtree, root, ignore_errors=True)
        text = pathlib.Path(__file__).read_text()
        (root / "text.txt").write_text(text)
        (root / "link.txt").symlink_to(TEXT)
        service = self.start("--root", str(root))

        def with_field(pointer, value):
            asked = job("bad")
            asked["config"]["data"]["path"] = str(root / "text.txt")
            section, field = pointer.split("/")
            asked["config"].setdefault(section, {})[field] = value
            return asked

        for path in ("/etc/passwd", str(root / "link.txt"), str(root / ".." / "x"), "x", str(root) + "-other/x",
                     str(root / "none" / ".." / ".." / "x"), "../../etc/passwd"):  # fmt: skip
            for pointer in PATHS:
                answer = service.post(with_field(pointer, path))
                self.assertRefused(answer, 400, "NOT_ALLOWED")
                self.assertIn(str(root), answer[1]["error"]["message"])
            for pointer in ("data/sources", "data/validation_sources"):
                good = {"path": str(root / "text.txt")}
                self.assertRefused(service.post(with_field(pointer, [good, {"path": path}])), 400, "NOT_ALLOWED")
        self.assertEqual(list(self.folder.iterdir()), [])
        good = with_field("telemetry/tensorboard", str(root / "events"))
        self.assertEqual(service.post({**good, "name": "good", "checkpoint_every": 5})[0], 201)
        service.wait_for("good", "done")
        self.assertTrue(list((root / "events").iterdir()))

    def test_the_fields_with_paths_are_all_of_the_schemas(self):
        """If a new config field names a file, the services' lists must contain the field."""
        schema = pathlib.Path(__file__).parents[2] / "capi" / "schema"
        strings = set()
        for file in schema.glob("*.fbs"):
            table = ""
            for line in file.read_text().splitlines():
                table = line.split()[1] if line.startswith("table ") else table
                if re.match(r"\s*\w+: \[?string", line) and "choices" not in line:
                    strings.add(f"{table}.{line.split(':')[0].strip()}")
        self.assertEqual(strings, PATH_FIELDS | OTHER_TEXTS)
