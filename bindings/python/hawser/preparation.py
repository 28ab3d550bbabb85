"""Prepares text for training: tokenizes it and marks the tokens to train on."""

from __future__ import annotations

import json
import os
from typing import Any, Callable, Sequence, Union

from . import _native

Path = Union[str, "os.PathLike[str]"]


def prepare(
    model: Path,
    files: Path | Sequence[Path],
    out: Path,
    *,
    sequence: int,
    progress: Callable[[dict[str, Any]], object] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Prepares text for training: converts files of examples (JSON Lines, JSON arrays, Parquet, text) to the folder
    `out`, for data of the format "prepared". model: a tokenizer.json, or a folder with one. sequence: tokens per row.
    options: long ("cut" or "drop"), packing, pairs, template, threads, seed. progress is called with done_bytes,
    total_bytes and rows. Returns the report. If `out` already holds the result of the same request, nothing is
    done."""
    listed = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    request = {
        **options,
        "model": os.fspath(model),
        "files": [os.fspath(file) for file in listed],
        "out": os.fspath(out),
        "sequence": sequence,
    }
    told = None if progress is None else lambda text: progress(json.loads(text))
    return json.loads(_native.hws_data_prepare(json.dumps(request), told))


def preview(folder: Path, row: int = 0) -> dict[str, Any]:
    """Returns a row of a prepared folder as the model sees it: its documents, their texts, and the bytes of each text
    that are trained on."""
    return json.loads(_native.hws_data_preview(os.fspath(folder), row))


__all__ = ["prepare", "preview"]
