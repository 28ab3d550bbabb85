"""The jobs of the service, and the thread that trains them one after the other. Any thread may call their methods.

A job's folder contains
    job.json        the job's state; a change replaces the whole file
    metrics.jsonl   one row per step
    checkpoints/    step-N, from which a restarted service resumes
    model/          the trained model as a Hugging Face folder, once the job is done
"""

import dataclasses
import json
import math
import os
import pathlib
import re
import shutil
import threading
from typing import Any

import hawser


MOST_STEPS = 10**12  # the maximum of /checkpoint/every
# Names the config fields that contain paths of files and folders.
PATHS = (
    "/data/path",
    "/init/from",
    "/init/base",
    "/adapter/from",
    "/objective/reference",
    "/teacher/from",
    "/checkpoint/path",
    "/offload/folder",
    "/cuda/algorithm_cache",
    "/telemetry/tensorboard",
)
SOURCES = ("/data/sources", "/data/validation_sources")


class Refused(Exception):
    """A refused request: the status and the body of the response."""

    def __init__(self, status: int, error: dict[str, Any]):
        super().__init__(error["message"])
        self.status, self.error = status, error


def error_json(error: BaseException) -> dict[str, Any]:
    if isinstance(error, hawser.Error):
        return {"code": error.name, "message": str(error), "details": error.details}
    code = "HWS_IO" if isinstance(error, OSError) else "INTERNAL"
    return {"code": code, "message": str(error) or type(error).__name__, "details": None}


def refused(status: int, code: str, message: str) -> Refused:
    return Refused(status, {"code": code, "message": message, "details": None})


@dataclasses.dataclass
class Job:
    """One job. job.json contains its public fields."""

    name: str
    config: dict[str, Any]
    checkpoint_every: int
    number: int = 0  # order of arrival
    state: str = "queued"  # queued, running, done, failed, cancelled
    step: int = 0
    total_steps: int = 0
    loss: float | None = None  # loss of the last step
    error: dict[str, Any] | None = None  # why the job failed

    def __post_init__(self) -> None:
        self._cancelled = False  # cancellation was requested
        self._row_bytes = 0  # bytes of metrics.jsonl that can be read
        self._engine: hawser.Engine | None = None  # set while the job trains

    @property
    def ended(self) -> bool:
        return self.state not in ("queued", "running")

    def report(self) -> dict[str, Any]:
        keys = ("name", "state", "step", "total_steps", "loss", "error")
        report = {key: getattr(self, key) for key in keys}
        if self._engine is not None:
            now = self._engine.progress()
            report["step"] = now.step
            if math.isfinite(now.loss):
                report["loss"] = now.loss
        return report

    def store(self, folder: pathlib.Path) -> None:
        fresh = folder / "job.json.new"
        fresh.write_text(json.dumps(dataclasses.asdict(self), indent=1))
        fresh.replace(folder / "job.json")


def parse_request(body: bytes) -> Job:
    """Returns the job that a request describes."""
    try:
        return job_of(json.loads(body))
    except ValueError:
        raise refused(400, "BAD_REQUEST", "the body is not JSON") from None
    except RecursionError:
        raise refused(400, "BAD_REQUEST", "the body nests too deep") from None


def job_of(request: Any) -> Job:
    if not isinstance(request, dict):
        raise refused(400, "BAD_REQUEST", "the body is not a JSON object")
    if unknown := request.keys() - {"name", "config", "checkpoint_every"}:
        known = "there are name, config and checkpoint_every"
        raise refused(400, "BAD_REQUEST", f"unknown keys {', '.join(sorted(unknown))}; {known}")
    name, config, every = request.get("name"), request.get("config"), request.get("checkpoint_every", 10)
    if not isinstance(name, str) or not re.fullmatch("[a-z0-9-]{1,64}", name):
        raise refused(400, "BAD_REQUEST", f"name is {name!r}; give 1 to 64 of a-z, 0-9 and -")
    if type(every) is not int or not 1 <= every <= MOST_STEPS:
        raise refused(400, "BAD_REQUEST", f"checkpoint_every is {every!r}; give a number of steps, at most {MOST_STEPS}")
    if not isinstance(config, dict):
        raise refused(400, "BAD_REQUEST", "config is missing, or no object")
    return Job(name, config, every)


def value_at(tree: Any, pointer: str) -> Any:
    for key in pointer.split("/")[1:]:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def check_paths(config: dict[str, Any], root: pathlib.Path) -> None:
    """Refuses a config that reads or writes anything outside of `root`. Links are followed."""
    named = [(where, value_at(config, where)) for where in PATHS]
    for where in SOURCES:
        sources = value_at(config, where)
        named += [(f"{where}/path", value_at(at, "/path")) for at in (sources if isinstance(sources, list) else [])]
    for where, path in named:
        if isinstance(path, str) and not pathlib.Path(os.path.realpath(path)).is_relative_to(root):
            raise refused(400, "NOT_ALLOWED", f"{where}: {path!r} is not below {root}, the folder of --root")


def check_config(job: Job) -> None:
    """Refuses a config that cannot be trained, and reports all its problems."""
    try:
        with hawser.Config(job.config) as config:
            config["/checkpoint/every"] = job.checkpoint_every
            if problems := config.validate():
                text = "\n".join(f"{at['pointer']}: {at['message']}; {at['fix']}" for at in problems)
                raise hawser.ConfigInvalid(text, {"problems": problems})
            job.total_steps = config["/train/steps"]
    except hawser.Error as error:
        raise Refused(400, error_json(error)) from None
    except RecursionError:
        raise refused(400, "BAD_REQUEST", "config nests too deep") from None
    except ValueError as error:  # NaN, which Python reads as JSON
        raise refused(400, "BAD_REQUEST", f"config: {error}") from None


class Rows:
    """Opens metrics.jsonl to append rows. Rows after `step` are removed, because they will be written again."""

    def __init__(self, path: pathlib.Path, step: int):
        self.loss: float | None = None  # loss of the last row that is kept
        self.bytes = 0
        self._file = open(path, "a+b", buffering=0)
        self._file.seek(0)
        for line in self._file.readlines():
            if not line.endswith(b"\n") or (row := json.loads(line))["step"] > step:
                break
            self.loss = row["loss"]
            self.bytes += len(line)
        self._file.truncate(self.bytes)

    def append(self, record: hawser.TrainRecord) -> None:
        names = ("step", "loss", "grad_norm", "learning_rate", "tokens_per_second", "validation_loss")
        row = {name: getattr(record, name) for name in names}
        row = {name: value if math.isfinite(value) else None for name, value in row.items()}
        line = json.dumps(row).encode() + b"\n"
        if self._file.write(line) != len(line):
            self._file.truncate(self.bytes)  # removes the incomplete row
            raise OSError(f"{self._file.name} cannot be written: is the disk full?")
        self.bytes += len(line)

    def close(self) -> None:
        self._file.close()


class Jobs:
    """All jobs of a folder. Continues the jobs that the last service did not finish.

    New jobs may read and write only below `root`; None allows every path."""

    def __init__(self, folder: str | os.PathLike[str], root: str | os.PathLike[str] | None = None):
        self._root = None if root is None else pathlib.Path(os.path.realpath(root))
        self._folder = pathlib.Path(folder).absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        self._changed = threading.Condition()  # guards the jobs
        self._stopping = False
        self._jobs: dict[str, Job] = {}
        for path in self._folder.glob("*/job.json"):
            job = Job(**json.loads(path.read_text()))
            if job.state == "running":
                job.state = "queued"
            elif (rows := path.with_name("metrics.jsonl")).exists():
                job._row_bytes = rows.stat().st_size
            self._jobs[job.name] = job
        self._worker = threading.Thread(target=self._work, name="trainer")
        self._worker.start()

    def stop(self) -> None:
        """Ends the running job after its current step; its state on disk remains "running". Metrics streams end."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._worker.join()

    # requests

    def add(self, body: bytes) -> dict[str, Any]:
        """Adds a job from the body of a request."""
        job = parse_request(body)
        if self._root is not None:
            check_paths(job.config, self._root)
        check_config(job)
        folder = self._folder / job.name
        with self._changed:
            if job.name in self._jobs or folder.exists():
                raise refused(409, "CONFLICT", f"there is a job {job.name!r} already")
            job.number = 1 + max((other.number for other in self._jobs.values()), default=-1)
            try:
                folder.mkdir()
                job.store(folder)
            except OSError as error:
                shutil.rmtree(folder, ignore_errors=True)
                raise Refused(507, error_json(error)) from None
            self._jobs[job.name] = job
            self._changed.notify_all()
            return {"name": job.name, "state": job.state}

    def states(self) -> dict[str, Any]:
        with self._changed:
            return {"jobs": [job.report() for job in self._by_number()]}

    def get(self, name: str) -> dict[str, Any]:
        with self._changed:
            return self._find(name).report()

    def cancel(self, name: str) -> dict[str, Any]:
        with self._changed:
            job = self._find(name)
            if job.ended:
                raise refused(409, "CONFLICT", f"the job {name!r} has ended: it is {job.state}")
            job._cancelled = True  # the worker checks this after each step
            if job.state == "queued":
                job.state = "cancelled"
                job.store(self._folder / name)
                self._changed.notify_all()
            return {"name": name, "state": job.state}

    def rows(self, name: str, start: int) -> bytes:
        """Returns complete rows of metrics from a byte offset on. Waits for at least one row; b"" means the end."""
        with self._changed:
            job = self._find(name)
            self._changed.wait_for(lambda: job._row_bytes > start or job.ended or self._stopping)
            end = job._row_bytes
        if end <= start:
            return b""
        with open(self._folder / name / "metrics.jsonl", "rb") as file:
            file.seek(start)
            return file.read(end - start)

    def model(self, name: str) -> dict[str, Any]:
        with self._changed:
            job = self._find(name)
            if job.state != "done":
                raise refused(409, "CONFLICT", f"the job {name!r} is {job.state}, not done")
        files = sorted((self._folder / name / "model").iterdir())
        return {"files": [{"name": file.name, "bytes": file.stat().st_size} for file in files]}

    def model_file(self, name: str, file: str) -> pathlib.Path:
        if file not in [entry["name"] for entry in self.model(name)["files"]]:
            raise refused(404, "NOT_FOUND", f"the model of {name!r} has no file {file!r}")
        return self._folder / name / "model" / file

    def _find(self, name: str) -> Job:
        if name not in self._jobs:
            raise refused(404, "NOT_FOUND", f"there is no job {name!r}")
        return self._jobs[name]

    def _by_number(self) -> list[Job]:
        return sorted(self._jobs.values(), key=lambda job: job.number)

    # the worker

    def _work(self) -> None:
        while (job := self._next()) is not None:
            try:
                job.store(self._folder / job.name)
                self._train(job)
                ended = "cancelled" if job._cancelled else "running" if self._stopping else "done"
                self._end(job, ended)
            except Exception as error:
                self._end(job, "failed", error_json(error))

    def _next(self) -> Job | None:
        """Waits for the queued job that arrived first, and returns it; None if the service is stopping."""
        def waiting() -> Job | None:
            return next((job for job in self._by_number() if job.state == "queued"), None)

        with self._changed:
            self._changed.wait_for(lambda: self._stopping or waiting())
            if self._stopping or (job := waiting()) is None:
                return None
            job.state = "running"
            return job

    def _train(self, job: Job) -> None:
        """Trains a job from its newest checkpoint, if it has one, and exports the model."""
        folder = self._folder / job.name
        config = hawser.Config(job.config)
        config["/checkpoint/path"] = str(folder / "checkpoints")
        config["/checkpoint/every"] = job.checkpoint_every
        with config, hawser.Engine(config) as engine:
            try:
                engine.load_latest(folder / "checkpoints")
            except hawser.NotFound:
                pass  # the job is new, or ended before its first checkpoint
            rows = Rows(folder / "metrics.jsonl", engine.progress().step)
            try:
                with self._changed:
                    job.loss, job._row_bytes, job._engine = rows.loss, rows.bytes, engine
                engine.train(lambda record: self._step(job, rows, record))
            finally:
                with self._changed:
                    last = job.report()
                    job.step, job.loss, job._engine = last["step"], last["loss"], None
                rows.close()
            if not job._cancelled and not self._stopping:
                shutil.rmtree(folder / "model", ignore_errors=True)  # left by a service that was killed
                engine.export(folder / "model")

    def _step(self, job: Job, rows: Rows, record: hawser.TrainRecord) -> bool:
        rows.append(record)
        with self._changed:
            job._row_bytes = rows.bytes
            self._changed.notify_all()
            return not job._cancelled and not self._stopping

    def _end(self, job: Job, state: str, error: dict[str, Any] | None = None) -> None:
        with self._changed:
            job.state, job.error = state, error
            try:
                job.store(self._folder / job.name)
            except OSError:
                pass  # the disk is full: the next start runs the job again
            self._changed.notify_all()
