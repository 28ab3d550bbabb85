"""Data sources: an iterable or a callable behind the library's pull callback."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Callable


class SourceBatch:
    """The global batch of one step, for a data source to fill; valid until the source returns.

    step: the step that it is for, from 1. samples: rows consumed before it, the position in the data.
    rows, cols: its shape. tokens, targets, document_begin: writable int32 memoryviews of that shape (numpy.asarray takes
    them without a copy). All tokens are 0 and all targets -100 at first, so rows left alone do not count.
    has_documents: set it to True if document_begin is filled.
    """

    def __init__(self, step: int, samples: int, rows: int, cols: int, views: tuple):
        self.step, self.samples, self.rows, self.cols = step, samples, rows, cols
        self.has_documents = False
        self.tokens, self.targets, self.document_begin = (view.cast("i", (rows, cols)) for view in views)

    def _release(self) -> None:
        for view in (self.tokens, self.targets, self.document_begin):
            try:
                view.release()
            except BufferError:
                raise ValueError(
                    "the data source kept an array of its batch, whose memory is gone when the source returns: keep a copy"
                ) from None


def _arrays(item: Any) -> tuple:
    """(tokens, targets, document_begin or None) of what a source yields."""
    if isinstance(item, Mapping):
        unknown = set(item) - {"tokens", "targets", "document_begin"}
        if unknown or not {"tokens", "targets"} <= set(item):
            raise ValueError(
                f"a batch as a dict has tokens, targets and perhaps document_begin; this one has {', '.join(map(str, item))}"
            )
        return item["tokens"], item["targets"], item.get("document_begin")
    if isinstance(item, (tuple, list)) and len(item) in (2, 3):
        return (*item, None)[:3]
    raise TypeError(
        f"a data source gives (tokens, targets) or (tokens, targets, document_begin), not {type(item).__name__}"
    )


class Called:
    """A callable source: fills the batch (None or True), gives arrays, or False at the end."""

    def __init__(self, fill: Callable[[SourceBatch], Any]):
        self._fill = fill

    def __call__(self, step, samples, rows, cols, *views) -> Any:
        batch = SourceBatch(step, samples, rows, cols, views)
        try:
            answer = self._fill(batch)
            if answer is False:
                return 0
            if answer is None or answer is True:
                return 2 if batch.has_documents else 1
            return _arrays(answer)
        finally:
            batch._release()


class Iterated:
    """An iterable source, such as a generator or a DataLoader. A position that is asked again gets the same batch."""

    def __init__(self, batches: Iterable):
        self._next = iter(batches)
        self._last: tuple[int, Any] | None = None

    def __call__(self, step, samples, rows, cols, *views) -> Any:
        if self._last is None or self._last[0] != samples:
            try:
                self._last = (samples, _arrays(next(self._next)))
            except StopIteration:
                return 0
        return self._last[1]


def source_of(source: Iterable | Callable[[SourceBatch], Any]) -> Called | Iterated:
    if callable(source):
        return Called(source)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, Mapping)):
        return Iterated(source)
    raise TypeError(f"a data source is an iterable of batches or a callable, not {type(source).__name__}")


__all__ = ["SourceBatch"]
