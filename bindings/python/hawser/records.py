"""Reports of steps, runs and engines: named tuples with the fields of the C API's structs."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import _native

ACCEPTED = _native.HWS_STEP_ACCEPTED
SKIPPED_NON_FINITE = _native.HWS_STEP_SKIPPED_NON_FINITE
SKIPPED_OUTLIER = _native.HWS_STEP_SKIPPED_OUTLIER
DISCARDED = _native.HWS_STEP_DISCARDED
PENDING = _native.HWS_STEP_PENDING
SKIPPED_OVERFLOW = _native.HWS_STEP_SKIPPED_OVERFLOW
REWOUND = _native.HWS_STEP_REWOUND

_PHASES = {
    _native.HWS_PHASE_IDLE: "idle",
    _native.HWS_PHASE_TRAIN: "train",
    _native.HWS_PHASE_EVAL: "eval",
    _native.HWS_PHASE_GENERATE: "generate",
    _native.HWS_PHASE_SAVE: "save",
    _native.HWS_PHASE_LOAD: "load",
}

_OUTCOMES = {
    ACCEPTED: "ACCEPTED",
    SKIPPED_NON_FINITE: "SKIPPED_NON_FINITE",
    SKIPPED_OUTLIER: "SKIPPED_OUTLIER",
    DISCARDED: "DISCARDED",
    PENDING: "PENDING",
    SKIPPED_OVERFLOW: "SKIPPED_OVERFLOW",
    REWOUND: "REWOUND",
}


def _shown(record: StepResult | TrainRecord) -> str:
    """Returns the record as text, with the name of its outcome."""
    values = {name: repr(value) for name, value in record._asdict().items()}
    values["outcome"] = _OUTCOMES.get(record.outcome, values["outcome"])
    return f"{type(record).__name__}({', '.join(f'{name}={value}' for name, value in values.items())})"


class StepResult(NamedTuple):
    """The result of one optimizer step.

    outcome: ACCEPTED; SKIPPED_NON_FINITE, SKIPPED_OUTLIER or SKIPPED_OVERFLOW (only the data cursor
        moved); REWOUND (an outlier, after which the engine holds the newest checkpoint of the run again, with its
        data cursor behind the step's rows); DISCARDED; or PENDING.
    step: number of the step, from 1; skipped and discarded steps count.
    loss: mean over the unmasked targets of the global batch, in nats.
    grad_norm: norm of the gradients of all distinct parameters, before clipping.
    learning_rate: learning rate of this step.
    tokens: number of unmasked targets.
    samples: data cursor after the step, in rows since the start.
    skipped: steps skipped or discarded so far.
    seconds: wall time.
    """

    outcome: int
    step: int
    loss: float
    grad_norm: float
    learning_rate: float
    tokens: int
    samples: int
    skipped: int
    seconds: float

    def __repr__(self) -> str:
        return _shown(self)


class TrainRecord(NamedTuple):
    """The report of a step of Engine.train. The fields down to seconds are those of StepResult.

    validation_loss: in nats; NaN if this step had no validation.
    tokens_per_second: positions of this step per second, including masked positions.
    total_steps: the step at which this run ends.
    saved: a checkpoint of this step is written as soon as the callback returns.
    best: this validation loss is the lowest so far.
    communication_bytes: bytes sent in this step by the first rank of this process; 0 with one rank.
    save_failures: checkpoints that this engine could not write so far.
    """

    outcome: int
    step: int
    loss: float
    grad_norm: float
    learning_rate: float
    tokens: int
    samples: int
    skipped: int
    seconds: float
    validation_loss: float
    tokens_per_second: float
    total_steps: int
    saved: bool
    best: bool
    communication_bytes: int
    save_failures: int

    def __repr__(self) -> str:
        return _shown(self)


class Progress(NamedTuple):
    """The progress of an engine. Numbers of the last step are NaN before the first step and after a load.

    phase: "idle", "train", "eval", "generate", "save" or "load".
    step: number of steps taken, including skipped and discarded steps.
    until_step: the step at which the running train ends; 0 if none runs.
    total_steps: the step at which the config ends a run (train.steps).
    samples, tokens: the data cursor in rows and in positions.
    skipped: number of steps skipped or discarded.
    done, total: rows evaluated or tokens generated, and their total; total is 0 if the phase counts nothing.
    loss, grad_norm, learning_rate, step_seconds, tokens_per_second: values of the last step.
    validation_loss: loss of the last validation within train; NaN if there was none.
    running_seconds: time since the running call began; 0 if none runs.
    save_failures: number of checkpoints that this engine could not write.
    saving: a checkpoint is being written during training.
    """

    phase: str
    step: int
    until_step: int
    total_steps: int
    samples: int
    tokens: int
    skipped: int
    done: int
    total: int
    loss: float
    grad_norm: float
    learning_rate: float
    step_seconds: float
    tokens_per_second: float
    validation_loss: float
    running_seconds: float
    save_failures: int
    saving: bool


class Sizes(NamedTuple):
    """The sizes of a batch: global_batch rows of `sequence` tokens, each in [0, vocab_size).

    With batch.ramp, global_batch is the largest size; Engine.info()["step_rows"] has the rows of the next step.

    outputs: number of outputs of the model's head per token: vocab_size, or 1 for a score.
    """

    vocab_size: int
    sequence: int
    global_batch: int
    outputs: int


class Evaluation(NamedTuple):
    """The result of an evaluation. loss: nats per unmasked target; tokens: number of unmasked targets."""

    loss: float
    tokens: int


def train_record(fields: tuple[Any, ...]) -> TrainRecord:
    return TrainRecord._make((*fields[:12], bool(fields[12]), bool(fields[13]), *fields[14:]))


def progress(fields: tuple[Any, ...]) -> Progress:
    return Progress._make((_PHASES.get(fields[0], "idle"), *fields[1:-1], bool(fields[-1])))
