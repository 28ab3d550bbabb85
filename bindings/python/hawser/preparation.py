"""Text becomes rows of tokens for training, with what is learned of them."""

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
    """Prepares text for training: files of rows (JSON Lines, JSON arrays, Parquet, text) become the folder `out`, for
    data of the format "prepared". model: a folder with tokenizer.json, or such a file. sequence: tokens of a row.
    options: long ("cut" or "drop"), packing, pairs, template, threads, seed. progress hears done_bytes, total_bytes and rows.
    Returns the report. The same request made again finds its folder there, and does nothing."""
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
    """A row of a prepared folder as the model sees it: its documents, their texts, and the bytes of each text that are
    learned."""
    return json.loads(_native.hws_data_preview(os.fspath(folder), row))


__all__ = ["prepare", "preview"]
