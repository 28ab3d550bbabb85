#!/usr/bin/env python3
"""A training service over HTTP: jobs are posted, trained one after the other, watched, cancelled, and downloaded.

A restart goes on with unfinished jobs from their checkpoints.

    pip install hawser && python service.py DIRECTORY [PORT]
    curl localhost:PORT/jobs -d '{"name": "first", "config": {"preset": "quickstart", "data": {"path": "/tmp/text"}}}'

    POST /jobs                    {"name", "config", "checkpoint_every"}
    GET  /jobs, /jobs/NAME        states
    GET  /jobs/NAME/metrics       a row for each step, as they come
    POST /jobs/NAME/cancel
    GET  /jobs/NAME/model[/FILE]  the trained model, a Hugging Face folder
"""

import json
import re
import shutil
import signal
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

from jobs import Jobs, Refused, error_json

LARGEST_BODY = 1 << 20
NAME = "([^/]+)"
ROUTES = [
    ("POST", re.compile("/jobs"), "add"),
    ("GET", re.compile("/jobs"), "list"),
    ("GET", re.compile(f"/jobs/{NAME}"), "get"),
    ("POST", re.compile(f"/jobs/{NAME}/cancel"), "cancel"),
    ("GET", re.compile(f"/jobs/{NAME}/metrics"), "metrics"),
    ("GET", re.compile(f"/jobs/{NAME}/model"), "model"),
    ("GET", re.compile(f"/jobs/{NAME}/model/{NAME}"), "model_file"),
]


class Handler(BaseHTTPRequestHandler):
    """One connection. The functions on_* answer the routes."""

    jobs: Jobs

    def dispatch(self):
        known = False
        try:
            for method, path, name in ROUTES:
                if match := path.fullmatch(self.path):
                    known = True
                    if method == self.command:
                        return getattr(self, "on_" + name)(*map(unquote, match.groups()))
            if known:
                raise Refused(405, error_json("METHOD_NOT_ALLOWED", f"{self.path} does not take {self.command}"))
            raise Refused(404, error_json("NOT_FOUND", f"there is no {self.path}"))
        except Refused as refused:
            self.answer(refused.status, {"error": refused.error})
        except ConnectionError:  # who asked has gone
            pass
        except OSError as error:
            self.answer(507, {"error": error_json("IO", str(error))})

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = dispatch

    def answer(self, status, body):
        data = json.dumps(body).encode()
        self.begin(status, "application/json", len(data))
        self.wfile.write(data)

    def begin(self, status, kind, size=None):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if size is not None:
            self.send_header("Content-Length", str(size))
        self.send_header("Connection", "close")  # which ends a body without a length
        self.end_headers()

    def body(self):
        size = self.headers.get("Content-Length", "")
        if not size.isdigit():
            raise Refused(411, error_json("BAD_REQUEST", "the request says no Content-Length"))
        if int(size) > LARGEST_BODY:
            left = min(int(size), 64 * LARGEST_BODY)  # to be read, or who sends would not see the answer
            while left > 0 and (part := self.rfile.read(min(left, LARGEST_BODY))):
                left -= len(part)
            raise Refused(413, error_json("BAD_REQUEST", "the body is larger than 1 MB"))
        return self.rfile.read(int(size))

    def on_add(self):
        self.answer(201, self.jobs.add(self.body()))

    def on_list(self):
        self.answer(200, self.jobs.list())

    def on_get(self, name):
        self.answer(200, self.jobs.get(name))

    def on_cancel(self, name):
        self.answer(202, self.jobs.cancel(name))

    def on_metrics(self, name):
        self.jobs.get(name)  # refuses a name that nobody has
        self.begin(200, "application/x-ndjson")
        for rows in self.jobs.rows(name):
            self.wfile.write(rows)
            self.wfile.flush()

    def on_model(self, name):
        self.answer(200, self.jobs.model(name))

    def on_model_file(self, name, file):
        path = self.jobs.model_file(name, file)
        self.begin(200, "application/octet-stream", path.stat().st_size)
        with open(path, "rb") as source:
            shutil.copyfileobj(source, self.wfile)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


def serve(folder, port):
    ended = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    with Server(("127.0.0.1", port), Handler) as server:
        jobs = Handler.jobs = Jobs(folder)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
        ended.wait()
        jobs.stop()
        server.shutdown()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        print("usage: service DIRECTORY [PORT]", file=sys.stderr)
        sys.exit(2)
    serve(sys.argv[1], int(sys.argv[2]) if len(sys.argv) == 3 else 0)
