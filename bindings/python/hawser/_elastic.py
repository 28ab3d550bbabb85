"""Elastic jobs on Ray, Spark or Dask: the work of one rank, and the loop that continues after the loss of a rank.

The module of each such framework provides a function that runs one attempt: it starts `attempt.ranks` processes, each
of which calls `run_rank`, and returns their results. The loop makes attempts until one succeeds. Each attempt
continues from the newest checkpoint. It has a job and a secret of its own, so that ranks left over from an earlier
attempt cannot join. """

from __future__ import annotations

import os
import re
import secrets
import socket
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .checkpoints import Path
from .comm import Comm
from .config import Config
from .engine import Engine
from .errors import Aborted, ConfigInvalid, Error, NotFound, Timeout, Unavailable
from .records import TrainRecord

Setup = Callable[[Engine, int], Any]
Callback = Callable[[TrainRecord], Any]


class LostRank(Exception):
    """A rank of an attempt was lost; the text describes what the framework reports about the loss."""


@dataclass(frozen=True)
class Attempt:
    """The inputs of every process of one attempt."""

    config: str  # JSON, with a mesh for `ranks` ranks
    ranks: int
    job: str
    secret: bytes | None  # None if the network is trusted
    setup: Setup | None  # runs in each rank before it trains
    callback: Callback | None  # runs in rank 0 after each step


@dataclass(frozen=True)
class Ended:
    """The outcome of one rank's process."""

    error: Error | None  # the failure, if any
    result: dict[str, Any] | None  # only rank 0 has a result


def free_address(host: str) -> str:
    """Returns a free address of this machine on which rank 0 can listen."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.bind((host, 0))
        port = probe.getsockname()[1]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def run_rank(attempt: Attempt, rank: int, address: str) -> Ended:
    """Runs one rank in its process: connects, resumes from the newest checkpoint and trains to the end."""
    try:
        return Ended(None, _train(attempt, rank, address))
    except Error as error:
        return Ended(error, None)


def _train(attempt: Attempt, rank: int, address: str) -> dict[str, Any] | None:
    config = Config(attempt.config)
    with (
        Comm.address(rank, attempt.ranks, address, job=attempt.job, secret=attempt.secret,
                     trust_network=attempt.secret is None) as comm,  # fmt: skip
        Engine(config, comm=comm) as engine,
    ):
        try:
            engine.load_latest(config["/checkpoint/path"])
        except NotFound:
            pass  # this is the first attempt, or a rank was lost before the first checkpoint
        began = engine.progress().step
        if attempt.setup is not None:
            attempt.setup(engine, rank)
        engine.train(attempt.callback if rank == 0 else None)
        progress = engine.progress()
        return {"step": progress.step, "loss": progress.loss, "began": began} if rank == 0 else None


def newest_step(folder: Path) -> int:
    """Returns the step of the newest checkpoint below a folder, complete or not; -1 if there is none."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return -1
    return max((int(name[5:]) for name in names if re.fullmatch(r"step-\d+", os.fsdecode(name))), default=-1)


def _fitted(config: Config, ranks: int, at_least: int) -> tuple[Config, int]:
    """Returns the config for the largest number of ranks, at most `ranks`, that divides its rows."""
    for count in range(ranks, at_least, -1):
        try:
            return config.fit_ranks(count), count
        except ConfigInvalid:
            pass
    return config.fit_ranks(at_least), at_least


def train(
    start: Callable[[Attempt], list[Ended]],
    available: Callable[[], int],
    config: Config | Mapping[str, Any] | str | os.PathLike[str],
    ranks: int,
    *,
    min_ranks: int | None,
    setup: Setup | None,
    callback: Callback | None,
    trust_network: bool,
    max_losses: int,
) -> dict[str, Any]:
    """Makes attempts until one succeeds. start runs an attempt and raises LostRank; available returns the number of
    ranks that the cluster can run."""
    config, least = Config(config), ranks if min_ranks is None else min_ranks
    if not 1 <= least <= ranks:
        raise ValueError(f"min_ranks is {least}; give 1 to {ranks}, the number of ranks")
    folder = config.to_dict(resolved=True).get("checkpoint", {}).get("path")
    if not folder:
        raise ValueError("set /checkpoint/path to a folder that all ranks see: after a loss, training resumes there")
    lost: list[str] = []
    name, count, in_a_row, newest = uuid.uuid4().hex, ranks, 0, newest_step(folder)
    while True:
        fitted, count = _fitted(config, count, least)
        secret = None if trust_network else secrets.token_bytes(32)
        try:
            ended = start(Attempt(fitted.to_json(), count, f"{name}.{len(lost)}", secret, setup, callback))
            return {**_result(ended), "ranks": count, "losses": lost}
        except LostRank as loss:
            step = newest_step(folder)
            in_a_row = 1 if step > newest else in_a_row + 1
            newest = max(newest, step)
            lost.append(str(loss))
            if in_a_row >= max_losses:
                raise Unavailable(f"ranks were lost {in_a_row} times without a new checkpoint; the last: {loss}") from loss
            count = max(least, min(ranks, available()))


def _result(ended: list[Ended]) -> dict[str, Any]:
    """Returns the result of rank 0. Raises LostRank for a loss, and an error that would recur as it is."""
    errors = [end.error for end in ended if end.error is not None]
    for error in errors:
        if not isinstance(error, (Unavailable, Timeout, Aborted)):
            raise error
    if errors:
        raise LostRank(str(errors[0]))
    return next(end.result for end in ended if end.result is not None)
