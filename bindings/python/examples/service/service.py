#!/usr/bin/env python3
"""A training service over HTTP. Clients post, watch and cancel jobs, and download models. Jobs train one after the
other. After a restart, the service resumes unfinished jobs from their checkpoints.

    python service.py DIRECTORY [PORT] [--root FOLDER]
    curl localhost:PORT/jobs -d '{"name": "first", "config": {"preset": "quickstart", "data": {"path": "/tmp/text"}}}'

    POST /jobs                    {"name", "config", "checkpoint_every"}
    GET  /jobs, /jobs/NAME        states
    GET  /jobs/NAME/metrics       streams one row per step
    POST /jobs/NAME/cancel
    GET  /jobs/NAME/model[/FILE]  the trained model, a Hugging Face folder

With --root, configs may name only files below FOLDER. examples/trust.md of the source tree explains whom the
service trusts.
"""

import argparse
import http.server
import json
import re
import shutil
import signal
import socket
import threading
import urllib.parse
from typing import Any

from jobs import Jobs, Refused, error_json, refused

LARGEST_BODY = 1 << 20
# A client that connects and sends nothing, or sends a byte now and then, could otherwise keep a thread
# indefinitely.
MOST_HALF_REQUESTS = 64  # further connections are closed at once
SECONDS_FOR_A_REQUEST = 10  # from the first byte of a request to its last


class Server(http.server.ThreadingHTTPServer):
    half_requests = threading.BoundedSemaphore(MOST_HALF_REQUESTS)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.half_requests.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)


class Handler(http.server.BaseHTTPRequestHandler):
    """Handles one request. Each connection carries one request, so a stream ends with its connection."""

    jobs: Jobs  # set on the class

    def setup(self) -> None:
        super().setup()
        self.arrived = False
        # When the deadline expires, reading ends as if the client had sent everything.
        self.deadline = threading.Timer(SECONDS_FOR_A_REQUEST, self.connection.shutdown, (socket.SHUT_RD,))
        self.deadline.daemon = True
        self.deadline.start()

    def finish(self) -> None:
        self.has_arrived()
        super().finish()

    def has_arrived(self) -> None:
        """Cancels the deadline, because the request has arrived and handling it may take longer."""
        if not self.arrived:
            self.arrived = True
            self.deadline.cancel()
            Server.half_requests.release()

    def do_any(self) -> None:
        try:
            self.dispatch(urllib.parse.urlsplit(self.path).path)
        except Refused as error:
            self.answer(error.status, {"error": error.error})
        except ConnectionError:
            pass  # the client has disconnected
        except OSError as error:
            self.answer(507, {"error": error_json(error)})
        except Exception as error:
            self.answer(500, {"error": error_json(error)})

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = do_any

    def dispatch(self, path: str) -> None:
        known = False
        for method, pattern, handle in ROUTES:
            if at := re.fullmatch(pattern, path):
                known = True
                if method == self.command:
                    return handle(self, *map(urllib.parse.unquote, at.groups()))
        if known:
            raise refused(405, "METHOD_NOT_ALLOWED", f"{path} does not take {self.command}")
        raise refused(404, "NOT_FOUND", f"there is no {path}")

    def add(self) -> None:
        self.answer(201, self.jobs.add(self.body()))

    def list(self) -> None:
        self.answer(200, self.jobs.states())

    def get(self, name: str) -> None:
        self.answer(200, self.jobs.get(name))

    def cancel(self, name: str) -> None:
        self.answer(202, self.jobs.cancel(name))

    def metrics(self, name: str) -> None:
        self.jobs.get(name)  # refuses an unknown name
        self.start(200, "application/x-ndjson")
        sent = 0
        while rows := self.jobs.rows(name, sent):
            self.wfile.write(rows)
            sent += len(rows)

    def model(self, name: str) -> None:
        self.answer(200, self.jobs.model(name))

    def model_file(self, name: str, file: str) -> None:
        with open(self.jobs.model_file(name, file), "rb") as stream:
            self.start(200, "application/octet-stream")
            shutil.copyfileobj(stream, self.wfile)

    def body(self) -> bytes:
        length = self.headers.get("Content-Length", "")
        if not re.fullmatch("[0-9]{1,12}", length):
            raise refused(400, "BAD_REQUEST", "a job needs a body, and its Content-Length")
        if int(length) > LARGEST_BODY:
            self.rfile.read(min(int(length), 16 * LARGEST_BODY))  # a client that is still sending would miss the response
            raise refused(413, "BAD_REQUEST", f"the body is larger than {LARGEST_BODY} bytes")
        return self.rfile.read(int(length))

    def start(self, status: int, kind: str) -> None:
        self.has_arrived()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.end_headers()

    def answer(self, status: int, body: dict[str, Any]) -> None:
        self.start(status, "application/json")
        self.wfile.write(json.dumps(body).encode())

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers requests that the server itself refuses, such as an unknown method."""
        self.answer(code, {"error": {"code": "BAD_REQUEST", "message": message or "bad request", "details": None}})

    def log_message(self, *words: Any) -> None:
        """Does nothing, because requests are not logged."""


ROUTES = (
    ("POST", "/jobs", Handler.add),
    ("GET", "/jobs", Handler.list),
    ("GET", "/jobs/([^/]+)", Handler.get),
    ("POST", "/jobs/([^/]+)/cancel", Handler.cancel),
    ("GET", "/jobs/([^/]+)/metrics", Handler.metrics),
    ("GET", "/jobs/([^/]+)/model", Handler.model),
    ("GET", "/jobs/([^/]+)/model/([^/]+)", Handler.model_file),
)


def serve(directory: str, port: int, root: str | None) -> None:
    Handler.jobs = Jobs(directory, root)
    server = Server(("127.0.0.1", port), Handler)
    for number in (signal.SIGTERM, signal.SIGINT):
        # shutdown waits for serve_forever, which runs on this thread, so another thread must call it.
        signal.signal(number, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever(poll_interval=0.1)
    Handler.jobs.stop()
    server.server_close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Trains the jobs that are posted to it.")
    parser.add_argument("directory", help="holds the jobs")
    parser.add_argument("port", type=int, nargs="?", default=0)
    parser.add_argument("--root", help="configs name only files below this folder")
    words = parser.parse_args()
    serve(words.directory, words.port, words.root)
