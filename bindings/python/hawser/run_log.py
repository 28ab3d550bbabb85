"""RunLog: writes the steps of Engine.train to the logger "hawser"."""

from __future__ import annotations

import logging
import math
from typing import Any, Callable

from . import _native
from .records import TrainRecord, train_record

log = logging.getLogger("hawser")
log.addHandler(logging.NullHandler())  # no output in a program that has not set up logging


class RunLog:
    """Logs steps as DEBUG, validations and checkpoints as INFO, skipped steps and failed checkpoints as WARNING."""

    def __init__(self, metrics: Callable[[], dict[str, Any]]):
        self._metrics = metrics
        self._failures: int | None = None  # failed checkpoints up to the last step

    def __call__(self, record: TrainRecord) -> None:
        step = record.step
        log.debug("step %d of %d: loss %.4f, %.0f tokens/s", step, record.total_steps, record.loss, record.tokens_per_second)
        if record.outcome == _native.HWS_STEP_REWOUND:
            log.warning("step %d was an outlier: loss %g, gradient norm %g; the run goes on from its newest checkpoint", step,
                        record.loss, record.grad_norm)
        elif record.outcome != _native.HWS_STEP_ACCEPTED:
            log.warning("step %d was skipped: loss %g, gradient norm %g", step, record.loss, record.grad_norm)
        if not math.isnan(record.validation_loss):
            best = ", the best so far" if record.best else ""
            log.info("step %d: validation loss %.4f%s", step, record.validation_loss, best)
        if record.saved:
            log.info("step %d: writing a checkpoint", step)
        if self._failures is not None and record.save_failures > self._failures:
            log.warning("a checkpoint could not be written: %s", self._metrics()["save_error"])
        self._failures = record.save_failures


def told(metrics: Callable[[], dict[str, Any]], callback: Callable[[TrainRecord], Any] | None) -> Callable[[Any], Any]:
    """Returns a callback that logs each step and then calls `callback`."""
    tell = RunLog(metrics)

    def after(fields: Any) -> Any:
        record = train_record(fields)
        tell(record)
        return callback(record) if callback is not None else None

    return after


__all__ = ["told"]
