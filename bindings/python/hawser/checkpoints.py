"""Checkpoints without an engine: inspects and verifies them, and converts them to and from Hugging Face folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from typing import Any, Union

from . import _native

Path = Union[str, bytes, os.PathLike[str]]


def inspect_checkpoint(path: Path) -> dict[str, Any]:
    """Returns model, step, tensors and files of a checkpoint."""
    return json.loads(_native.hws_checkpoint_inspect(path))


def verify_checkpoint(path: Path) -> None:
    """Checks every digest; raises CheckpointCorrupt with file, tensor and bytes. Ctrl-C ends the check."""
    _native.hws_checkpoint_verify(path)


def latest_checkpoint(folder: Path) -> str:
    """Returns the path of the newest valid checkpoint below `folder` (step-*, best). Raises NotFound,
    CheckpointCorrupt."""
    return os.fsdecode(_native.hws_checkpoint_latest(folder))


def import_checkpoint(hf_folder: Path, path: Path, ignore_keys: Iterable[str] = ()) -> None:
    """Makes a checkpoint of step 0 from a Hugging Face folder. ignore_keys: unknown keys of config.json to accept."""
    _native.hws_checkpoint_import(hf_folder, path, json.dumps(list(ignore_keys)) if ignore_keys else None)


def average_checkpoints(paths: Iterable[Path], path: Path, weights: Iterable[float] = ()) -> None:
    """Makes a checkpoint with the weighted mean of the weights of several checkpoints of one model, computed in f64 and
    rounded once to f32. weights: the share of each, relative to the others; empty: equal shares. The new checkpoint has
    no optimizer state. Ctrl-C ends the verification of digests."""
    shares = list(weights)
    _native.hws_checkpoint_average(json.dumps([os.fsdecode(p) for p in paths]), json.dumps(shares) if shares else None,
                                   path)


def export_checkpoint(path: Path, to: Path, dtype: str = "") -> None:
    """Makes a Hugging Face folder from a checkpoint or another such folder, or a file for llama.cpp if `to` ends in
    ".gguf". dtype: "f32", "bf16", "f16", for GGUF also "q8_0", or "" for the dtype of the import (f32 for a model that
    was not imported)."""
    _native.hws_checkpoint_export(path, to, dtype)


def export_checkpoint_adapter(path: Path, to: Path) -> None:
    """Makes a PEFT folder from the adapter in a checkpoint, or a file for llama.cpp if `to` ends in ".gguf"."""
    _native.hws_checkpoint_export_adapter(path, to)


__all__ = [
    "inspect_checkpoint", "verify_checkpoint", "latest_checkpoint", "import_checkpoint", "average_checkpoints",
    "export_checkpoint", "export_checkpoint_adapter",
]
