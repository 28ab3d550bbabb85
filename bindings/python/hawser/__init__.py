"""Hawser trains transformer language models inside your program.

    import hawser

    with hawser.Engine("run.json") as engine:
        for record in engine.steps():
            print(record.step, record.loss)
"""

from ._library import ABI_VERSION, __version__  # imported first, because it reports a broken library
from .checkpoints import (
    average_checkpoints, export_checkpoint, export_checkpoint_adapter, import_checkpoint, inspect_checkpoint,
    latest_checkpoint, verify_checkpoint,
)
from .comm import Comm, Transport, read_env
from .config import Config, Plan, binary_schema, config_schema, presets
from .devices import device_peak, devices, library_info, measure_device, set_interrupt, set_progress
from .engine import Engine
from .errors import (
    AbiMismatch,
    Aborted,
    AlreadyExists,
    BadHandle,
    Busy,
    CallbackFailed,
    Cancelled,
    CheckpointCorrupt,
    CheckpointIncompatible,
    ConfigInvalid,
    ConfigParse,
    DataInvalid,
    DataLoss,
    DeviceUnavailable,
    Error,
    FailedPrecondition,
    Forked,
    Internal,
    InvalidArgument,
    Io,
    NotFound,
    Numeric,
    OutOfMemory,
    OutOfRange,
    Permission,
    Timeout,
    Unavailable,
    Unimplemented,
    Unknown,
)
from .generation import Generation
from .operation import Operation
from .preparation import prepare, preview
from .records import (
    ACCEPTED,
    DISCARDED,
    PENDING,
    REWOUND,
    SKIPPED_NON_FINITE,
    SKIPPED_OUTLIER,
    SKIPPED_OVERFLOW,
    Evaluation,
    Progress,
    Sizes,
    StepResult,
    TrainRecord,
)
from .source import SourceBatch
from .steps import Steps
from .tensors import TensorView
from .tokenizer import Tokenizer

__all__ = [
    "__version__", "ABI_VERSION", "AbiMismatch", "Aborted", "ACCEPTED", "AlreadyExists", "average_checkpoints", "BadHandle", "binary_schema",
    "Busy", "CallbackFailed", "Cancelled", "CheckpointCorrupt", "CheckpointIncompatible", "Comm", "Config",
    "config_schema", "ConfigInvalid", "ConfigParse", "DataInvalid", "DataLoss", "device_peak", "devices",
    "DeviceUnavailable", "DISCARDED", "Engine", "Error", "Evaluation", "export_checkpoint", "export_checkpoint_adapter", "FailedPrecondition",
    "Forked", "Generation", "import_checkpoint", "inspect_checkpoint", "Internal", "InvalidArgument", "Io",
    "latest_checkpoint", "library_info", "measure_device", "NotFound", "Numeric", "Operation", "OutOfMemory",
    "OutOfRange", "PENDING", "Permission", "Plan", "prepare", "presets", "preview", "Progress", "read_env", "REWOUND", "set_interrupt", "set_progress", "Sizes",
    "SKIPPED_NON_FINITE", "SKIPPED_OUTLIER", "SKIPPED_OVERFLOW", "SourceBatch", "StepResult", "Steps", "TensorView", "Timeout",
    "Tokenizer", "TrainRecord", "Transport", "Unavailable", "Unimplemented", "Unknown", "verify_checkpoint",
]
