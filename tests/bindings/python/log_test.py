"""Tests hawser.log with trackers of its own, and a run folder that grows."""

import json
import sys
import threading
import time
import types

import pytest

from conftest import run_python, text_config
from hawser import Engine, log


class Tracker:
    """Stands in for the modules wandb and mlflow, and for a writer of TensorBoard; keeps what is sent."""

    def __init__(self):
        self.rows, self.config, self.name, self.finished = [], None, None, False

    # wandb
    def init(self, project, name, config):
        self.config, self.name = config, (project, name)
        return types.SimpleNamespace(log=lambda values, step: self.rows.append((step, values)), finish=self.end_run)

    # mlflow
    def set_experiment(self, project):
        self.name = (project,)

    def start_run(self, run_name):
        self.name += (run_name,)

    def log_params(self, config):
        assert all(isinstance(value, str) and len(value) <= 500 for value in config.values())
        self.config = config

    def log_metrics(self, values, step):
        self.rows.append((step, values))

    def end_run(self):
        self.finished = True


@pytest.fixture
def run(tmp_path):
    """A run folder of 6 of 8 steps."""
    folder = tmp_path / "my-run"
    folder.mkdir()
    (folder / "resolved.json").write_text(json.dumps({"train": {"steps": 8}, "model": {"width": 32, "window": [1, 2]}}))
    rows = [{"step": n, "loss": 1.0 / n, "outcome": "accepted", "experts": [1, 2], "nan": float("nan")} for n in range(1, 7)]
    rows[3] |= {"validation_loss": 0.5, "validation_losses": {"book.txt": 0.5}, "preferences": {"margin": 2}}
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.mark.parametrize("to", ["wandb", "mlflow"])
def test_sends_each_row_once(run, monkeypatch, capsys, to):
    tracker = Tracker()
    monkeypatch.setitem(sys.modules, to, tracker)
    log.main([str(run), "--to", to, "--once", "--project", "books"])
    assert [step for step, _ in tracker.rows] == [1, 2, 3, 4, 5, 6]
    assert tracker.rows[0][1] == {"train/loss": 1.0}, "lists, texts and NaN are left out"
    assert tracker.rows[3][1] == {"train/loss": 0.25, "validation/loss": 0.5, "validation/loss of book.txt": 0.5,
                                  "train/preferences/margin": 2.0}  # fmt: skip
    assert tracker.name == ("books", "my-run") and tracker.finished
    assert tracker.config["model/width" if to == "mlflow" else "model"] in ("32", {"width": 32, "window": [1, 2]})
    assert "6 steps" in capsys.readouterr().out


def test_follows_a_run_that_is_resumed(run, monkeypatch):
    """The file grows by parts of rows, is cut to step 4 and grows to the last step."""
    tracker, path = Tracker(), run / "metrics.jsonl"
    monkeypatch.setitem(sys.modules, "wandb", tracker)
    monkeypatch.setattr(log, "POLL_SECONDS", 0.01)
    thread = threading.Thread(target=log.main, args=([str(run), "--to", "wandb"],))
    thread.start()

    def wait_for(count):
        deadline = time.monotonic() + 60
        while len(tracker.rows) < count and time.monotonic() < deadline:
            time.sleep(0.01)
        assert len(tracker.rows) == count

    wait_for(6)
    with path.open("a") as file:
        file.write('{"step": 7, "lo')
        file.flush()
        time.sleep(0.05)
        assert len(tracker.rows) == 6, "half a row is not sent"
        file.write('ss": 3}\n')
    wait_for(7)
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:4]))
    time.sleep(0.05)
    with path.open("a") as file:
        file.writelines(json.dumps({"step": n, "loss": 3.0}) + "\n" for n in range(5, 9))
    thread.join(60)
    assert not thread.is_alive() and [step for step, _ in tracker.rows] == list(range(1, 9)) and tracker.finished


def test_reads_what_a_run_writes(tmp_path, monkeypatch):
    text = tmp_path / "text"
    text.write_text("to be or not to be " * 200)
    monkeypatch.setitem(sys.modules, "wandb", tracker := Tracker())
    config = text_config(text, checkpoint={"path": str(tmp_path / "run")})
    run_folder = tmp_path / "run"
    run_folder.mkdir()
    with Engine(config) as engine, (run_folder / "metrics.jsonl").open("w") as file:
        (run_folder / "resolved.json").write_text(json.dumps({"train": {"steps": 8}}))
        engine.train(lambda record: file.write(json.dumps({"step": record.step, "loss": record.loss}) + "\n") and None)
    log.main([str(run_folder), "--to", "wandb"])
    assert len(tracker.rows) == 8 and tracker.rows[7][1]["train/loss"] < tracker.rows[0][1]["train/loss"]


def test_bad_input(run, tmp_path, capsys):
    for words, text in (
        ([str(tmp_path), "--to", "wandb"], "not a run folder"),
        ([str(run), "--to", "wandb"], "pip install wandb"),
        ([str(run), "--to", "comet"], "invalid choice"),
    ):
        result = run_python("import sys; from hawser import log; log.main(sys.argv[1:])", *words)
        assert result.returncode != 0 and text in result.stderr and "Traceback" not in result.stderr
