"""Sends the metrics of a run folder to Weights & Biases, MLflow or TensorBoard, with the package that you have installed.

    hawser log RUN --to wandb          (python -m hawser.log is the same)

While the run continues, rows are sent as they appear; the command ends when the run has made its last step. `--once`
sends the rows that are there. Steps are sent once: a second `hawser log` of the same run to wandb or MLflow continues
the first one's run if it is given the same --name.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator, Protocol

POLL_SECONDS = 0.5


class Sink(Protocol):
    """Receives the rows of one run."""

    def row(self, step: int, values: dict[str, float]) -> None: ...

    def finish(self) -> None: ...


def package(name: str, install: str) -> Any:
    """Imports a package of the user's; exits with the command that installs it if it is missing."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        sys.exit(f"hawser log: cannot import {name} ({error}); install it: pip install {install}")


class WandbSink:
    def __init__(self, name: str, project: str, config: dict[str, Any]):
        wandb = package("wandb", "wandb")
        self._run = wandb.init(project=project, name=name, config=config)

    def row(self, step: int, values: dict[str, float]) -> None:
        self._run.log(values, step=step)

    def finish(self) -> None:
        self._run.finish()


class MlflowSink:
    LONGEST = 500  # characters of a value, MLflow's limit

    def __init__(self, name: str, project: str, config: dict[str, Any]):
        self._mlflow = package("mlflow", "mlflow")
        self._mlflow.set_experiment(project)
        self._mlflow.start_run(run_name=name)
        self._mlflow.log_params({key: str(value)[: self.LONGEST] for key, value in flat(config)})

    def row(self, step: int, values: dict[str, float]) -> None:
        self._mlflow.log_metrics(values, step=step)

    def finish(self) -> None:
        self._mlflow.end_run()


class TensorboardSink:
    def __init__(self, name: str, project: str, config: dict[str, Any]):
        folder = str(Path(project) / name)
        try:
            self._writer = importlib.import_module("torch.utils.tensorboard").SummaryWriter(folder)
        except ImportError:
            self._writer = package("tensorboardX", "tensorboardX").SummaryWriter(folder)
        self._writer.add_text("config", f"```\n{json.dumps(config, indent=2)}\n```", 0)

    def row(self, step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def finish(self) -> None:
        self._writer.close()


SINKS: dict[str, Callable[[str, str, dict[str, Any]], Sink]] = {
    "wandb": WandbSink,
    "mlflow": MlflowSink,
    "tensorboard": TensorboardSink,
}


def flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the leaves of nested dicts, with names such as "model/width". Lists are leaves."""
    for key, inner in value.items():
        name = f"{prefix}/{key}" if prefix else str(key)
        if isinstance(inner, dict):
            yield from flat(inner, name)
        else:
            yield name, inner


def scalars(row: dict[str, Any]) -> dict[str, float]:
    """Returns the numbers of a row: train/loss and others, and validation/loss. Lists, texts and nulls are left out."""
    values = {}
    for name, value in flat(row):
        if name == "step" or isinstance(value, bool) or not isinstance(value, (int, float)):
            continue
        if name == "validation_loss":
            name = "validation/loss"
        elif name.startswith("validation_losses/"):
            name = "validation/loss of " + name.removeprefix("validation_losses/")
        elif not name.startswith("validation"):
            name = f"train/{name}"
        if math.isfinite(value):
            values[name] = float(value)
    return values


def rows(run: Path, last_step: int, once: bool, sleep: Callable[[float], Any] = time.sleep) -> Iterator[dict[str, Any]]:
    """Yields each complete row of metrics.jsonl once, in the order of steps, until last_step or, with `once`, until the
    file's end. A run that is resumed may cut the file; the steps that it repeats are not yielded again."""
    path, done, read = run / "metrics.jsonl", 0, 0
    while True:
        size = path.stat().st_size if path.exists() else 0
        if size < read:
            read = 0
        if size > read:
            with path.open("rb") as file:
                file.seek(read)
                data = file.read()
            complete = data.rfind(b"\n") + 1
            read += complete
            for line in data[:complete].splitlines():
                row = json.loads(line)
                if row["step"] > done:
                    done = row["step"]
                    yield row
        elif once or (last_step and done >= last_step):
            return
        else:
            sleep(POLL_SECONDS)


def read_config(run: Path) -> dict[str, Any]:
    for name in ("resolved.json", "config.json"):
        if (run / name).is_file():
            return json.loads((run / name).read_text())
    sys.exit(f"hawser log: {run} is not a run folder: it has no resolved.json")


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="hawser log", description="Send the metrics of a run to a tracker.")
    parser.add_argument("run", type=Path, metavar="RUN", help="folder of a run (hawser train --out)")
    parser.add_argument("--to", required=True, choices=sorted(SINKS), help="tracker, whose Python package must be installed")
    parser.add_argument("--project", default="hawser", help="project, experiment, or folder of TensorBoard (default: hawser)")
    parser.add_argument("--name", help="name of the run there (default: the folder's name)")
    parser.add_argument("--once", action="store_true", help="send the rows that are there, and do not wait for more")
    return parser.parse_args(words)


def main(words: list[str] | None = None) -> None:
    """Runs the command with these words; by default with those of the process."""
    options = arguments(sys.argv[1:] if words is None else words)
    config = read_config(options.run)
    name = options.name or options.run.resolve().name
    last_step = int(config.get("train", {}).get("steps") or 0)
    sink = SINKS[options.to](name, options.project, config)
    sent = 0
    try:
        for row in rows(options.run, last_step, options.once):
            sink.row(row["step"], scalars(row))
            sent += 1
    except KeyboardInterrupt:
        pass
    finally:
        sink.finish()
    print(f"hawser log: {sent} steps of {options.run} sent to {options.to}")


if __name__ == "__main__":
    main()
