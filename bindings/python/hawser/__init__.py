"""Hawser trains transformer language models inside your program.

    import hawser

    with hawser.Engine("run.json") as engine:
        for record in engine.steps():
            print(record.step, record.loss)
"""

from ._library import ABI_VERSION, __version__  # first: it says what is wrong with the library
from .checkpoints import export_checkpoint, import_checkpoint, inspect_checkpoint, latest_checkpoint, verify_checkpoint
from .comm import Comm, Transport, read_env
from .config import Config, Plan, binary_schema, config_schema, presets
from .devices import device_peak, devices, library_info, measure_device, set_interrupt
from .engine import Engine, Steps
from .errors import *  # noqa: F403
from .errors import Error
from .generation import Generation
from .operation import Operation
from .records import (
    ACCEPTED,
    DISCARDED,
    PENDING,
    SKIPPED_NON_FINITE,
    SKIPPED_OUTLIER,
    Evaluation,
    Progress,
    Sizes,
    StepResult,
    TrainRecord,
)
from .source import SourceBatch
from .tensors import TensorView
