"""Peer: runs a Transformers trainer (transformers_peer.py) in a process of its own."""

import json
import os
import subprocess
from pathlib import Path


class Peer:
    def __init__(self, python, folder, rows, tokens, precision, threads, *more):
        script = Path(__file__).with_name("transformers_peer.py")
        command = [python, str(script), str(folder), str(rows), str(tokens), precision, str(threads), *more]
        # With these settings, PyTorch keeps its memory pages between steps, as Hawser does.
        keeps = {"MALLOC_MMAP_THRESHOLD_": "4000000000", "MALLOC_TRIM_THRESHOLD_": "40000000000"}
        environment = {**os.environ, **keeps, "TRANSFORMERS_VERBOSITY": "error", "HF_HUB_DISABLE_PROGRESS_BARS": "1"}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)
        self.about = json.loads(self.process.stdout.readline())

    def step(self, line):
        """Returns seconds and loss of a training step, or of an evaluation."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        return answer["seconds"], answer["loss"]

    def close(self):
        self.process.stdin.close()
        self.process.wait()
