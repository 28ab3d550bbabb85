"""All jobs of the service, and the thread that trains them one after the other. Any thread may call the methods."""

import json
import math
import os
import pathlib
import re
import shutil
import threading

import hawser

ENDED = ("done", "failed", "cancelled")


def error_json(code, message, details=None):
    return {"code": code, "message": message, "details": details}


def of_error(error):
    return error_json(error.name, str(error), error.details)


class Refused(Exception):
    """A request that is not granted: the status of the answer, and what it says."""

    def __init__(self, status, error):
        super().__init__(error["message"])
        self.status, self.error = status, error


class Job:
    """One job and its folder: job.json, metrics.jsonl, checkpoints and the model."""

    STORED = ("name", "number", "config", "checkpoint_every", "state", "step", "total_steps", "loss", "error")

    def __init__(self, folder, fields):
        self.folder = folder
        self.number, self.state, self.step, self.loss, self.error = 0, "queued", 0, None, None
        self.__dict__.update(fields)
        self.cancelled = False
        self.engine = None  # while it trains
        self.row_bytes = 0  # of metrics.jsonl, whole rows

    @classmethod
    def restore(cls, folder):
        job = cls(folder, json.loads((folder / "job.json").read_text()))
        if job.state == "running":
            job.state = "queued"
        if job.ended and job.rows_path.exists():
            job.row_bytes = job.rows_path.stat().st_size
        return job

    @property
    def rows_path(self):
        return self.folder / "metrics.jsonl"

    @property
    def ended(self):
        return self.state in ENDED

    def store(self):
        fresh = self.folder / "job.json.new"
        fresh.write_text(json.dumps({name: getattr(self, name) for name in self.STORED}, indent=1))
        os.replace(fresh, self.folder / "job.json")

    def report(self):
        names = ("name", "state", "step", "total_steps", "loss", "error")
        state = {name: getattr(self, name) for name in names}
        if self.engine is not None:
            now = self.engine.progress()
            state["step"] = now.step
            if math.isfinite(now.loss):
                state["loss"] = now.loss
        return state

    def keep_rows(self, step):
        """Drops the rows after `step`, which come again, and the half of one."""
        kept = 0
        with open(self.rows_path, "ab+") as file:
            file.seek(0)
            for line in file:
                if not line.endswith(b"\n") or json.loads(line)["step"] > step:
                    break
                kept += len(line)
                self.loss = json.loads(line)["loss"]
            file.truncate(kept)
        self.row_bytes = kept

    def append_row(self, record):
        row = {name: getattr(record, name) for name in ("step", "loss", "grad_norm", "learning_rate", "tokens_per_second")}
        if not math.isnan(record.validation_loss):
            row["validation_loss"] = record.validation_loss
        line = json.dumps(row).encode() + b"\n"
        try:
            with open(self.rows_path, "ab") as file:
                file.write(line)
        except OSError as error:
            os.truncate(self.rows_path, self.row_bytes)  # without the half of a row
            raise hawser.Io(f"cannot write {self.rows_path} ({error.strerror}): is the disk full?") from None
        return len(line)


def parse_request(body):
    """The fields of the job that a request describes."""

    def bad(why):
        return Refused(400, error_json("BAD_REQUEST", why))

    try:
        request = json.loads(body)
    except (ValueError, RecursionError):
        raise bad("the body is not JSON") from None
    if not isinstance(request, dict):
        raise bad("the body is not a JSON object")
    if unknown := set(request) - {"name", "config", "checkpoint_every"}:
        raise bad(f"unknown key {sorted(unknown)[0]!r}; there are name, config and checkpoint_every")
    name, config, every = request.get("name"), request.get("config"), request.get("checkpoint_every", 10)
    if not isinstance(name, str) or not re.fullmatch("[a-z0-9-]{1,64}", name):
        raise bad(f"name is {json.dumps(name)}; give 1 to 64 of a-z, 0-9 and -")
    if type(every) is not int or every < 1:
        raise bad(f"checkpoint_every is {json.dumps(every)}; give a number of steps")
    if not isinstance(config, dict):
        raise bad("config is missing, or no object")
    return {"name": name, "config": config, "checkpoint_every": every, "total_steps": check(config)}


def check(given):
    """Refuses a config that cannot be trained, with all that is wrong with it; returns its steps."""
    try:
        config = hawser.Config(given)
        if problems := config.validate():
            text = "\n".join(f"{one['pointer']}: {one['message']}; {one['fix']}" for one in problems)
            raise Refused(400, error_json("HWS_CONFIG_INVALID", text, {"problems": problems}))
        return config["/train/steps"]
    except hawser.Error as error:
        raise Refused(400, of_error(error)) from None


class Jobs:
    def __init__(self, folder):
        """Goes on with the jobs that the folder holds."""
        self._folder = pathlib.Path(folder).absolute()
        self._folder.mkdir(parents=True, exist_ok=True)
        restored = [Job.restore(path.parent) for path in self._folder.glob("*/job.json")]
        self._jobs = {job.name: job for job in sorted(restored, key=lambda job: job.number)}
        self._changed = threading.Condition()  # guards the jobs
        self._stop = False
        self._worker = threading.Thread(target=self._work)
        self._worker.start()

    def stop(self):
        """Ends the running job after its step; it stays "running" on disk. Followers of metrics come to an end."""
        with self._changed:
            self._stop = True
            self._changed.notify_all()
        self._worker.join()

    # ---- requests

    def add(self, body):
        fields = parse_request(body)
        with self._changed:
            folder = self._folder / fields["name"]
            if fields["name"] in self._jobs or folder.exists():
                raise Refused(409, error_json("CONFLICT", f"there is a job {fields['name']!r} already"))
            job = Job(folder, fields)
            job.number = 1 + max((other.number for other in self._jobs.values()), default=0)
            try:
                folder.mkdir()
                job.store()
            except OSError as error:
                shutil.rmtree(folder, ignore_errors=True)
                raise Refused(507, error_json("DISK_FULL", f"cannot write {folder}: {error.strerror}")) from None
            self._jobs[job.name] = job
            self._changed.notify_all()
            return {"name": job.name, "state": job.state}

    def _find(self, name):
        if name not in self._jobs:
            raise Refused(404, error_json("NOT_FOUND", f"there is no job {name!r}"))
        return self._jobs[name]

    def list(self):
        with self._changed:
            return {"jobs": [job.report() for job in self._jobs.values()]}

    def get(self, name):
        with self._changed:
            return self._find(name).report()

    def cancel(self, name):
        with self._changed:
            job = self._find(name)
            if job.ended:
                raise Refused(409, error_json("CONFLICT", f"the job {name!r} has ended: it is {job.state}"))
            job.cancelled = True  # the worker sees it within a step
            if job.state == "queued":
                job.state = "cancelled"
                job.store()
                self._changed.notify_all()
            return {"name": name, "state": job.state}

    def rows(self, name):
        """Yields the rows of metrics as they come."""
        with self._changed:
            job = self._find(name)
        sent = 0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: job.row_bytes > sent or job.ended or self._stop)
                ready = job.row_bytes
            if ready <= sent:
                return
            with open(job.rows_path, "rb") as file:
                file.seek(sent)
                part = file.read(min(ready - sent, 1 << 16))
            sent += len(part)
            yield part

    def model(self, name):
        with self._changed:
            job = self._find(name)
            if job.state != "done":
                raise Refused(409, error_json("CONFLICT", f"the job {name!r} is {job.state}, not done"))
        files = sorted((job.folder / "model").iterdir())
        return {"files": [{"name": file.name, "bytes": file.stat().st_size} for file in files]}

    def model_file(self, name, file):
        if any(entry["name"] == file for entry in self.model(name)["files"]):
            return self._folder / name / "model" / file
        raise Refused(404, error_json("NOT_FOUND", f"the model of {name!r} has no file {file!r}"))

    # ---- the worker

    def _work(self):
        while job := self._next():
            self._run(job)

    def _next(self):
        """The job that came first of those that wait; None: the service ends."""

        def waiting():
            return [job for job in self._jobs.values() if job.state == "queued"]

        with self._changed:
            self._changed.wait_for(lambda: self._stop or waiting())
            if self._stop:
                return None
            job = waiting()[0]
            job.state = "running"
            return job

    def _run(self, job):
        try:
            job.store()
            self._train(job)
            self._end(job, "cancelled" if job.cancelled else "done")
        except hawser.Cancelled:
            self._end(job, "cancelled" if job.cancelled else "running")
        except hawser.Error as error:
            self._end(job, "failed", of_error(error))
        except Exception as error:
            self._end(job, "failed", error_json("INTERNAL", f"{type(error).__name__}: {error}"))

    def _train(self, job):
        """Trains a job from its newest checkpoint, if it has one, and exports the model."""
        hawser.set_interrupt(lambda: self._stop or job.cancelled)
        checkpoints = job.folder / "checkpoints"
        config = hawser.Config(job.config)
        config["/checkpoint/path"] = str(checkpoints)
        config["/checkpoint/every"] = job.checkpoint_every

        def tell(record):
            written = job.append_row(record)
            with self._changed:
                job.row_bytes += written
                self._changed.notify_all()

        with hawser.Engine(config) as engine:
            try:
                if checkpoints.exists():
                    engine.load_latest(checkpoints)
            except hawser.NotFound:  # it ended before the first one
                pass
            with self._changed:
                job.keep_rows(engine.progress().step)
                job.engine = engine
            try:
                engine.train(tell)
            finally:
                with self._changed:
                    last = job.report()
                    job.step, job.loss, job.engine = last["step"], last["loss"], None
            shutil.rmtree(job.folder / "model", ignore_errors=True)  # of a service that was killed meanwhile
            engine.export(job.folder / "model")

    def _end(self, job, state, error=None):
        with self._changed:
            job.state, job.error = state, error
            try:
                job.store()
            except OSError:  # a full disk: the next start runs it again
                pass
            self._changed.notify_all()
