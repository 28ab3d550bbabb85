"""Data sources: adapt an iterable or a callable to the library's pull callback."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any, Callable

from ._interrupt import InterruptHeld


class SourceBatch:
    """The global batch of one step, for a data source to fill.

    step: number of the step, from 1. samples: rows consumed before this step, which is the position in the data.
    rows, cols: shape of the batch. tokens, targets, document_begin: writable int32 memoryviews of that shape
    (numpy.asarray accepts them without a copy). At first, all tokens are 0 and all targets -100, so rows that are not
    filled do not count.
    has_documents: set it to True if document_begin is filled.
    weights: a writable float32 memoryview of that shape, all 1 at first. has_weights: set it to True if it is filled.
    """

    def __init__(self, step: int, samples: int, rows: int, cols: int):
        self.step, self.samples, self.rows, self.cols = step, samples, rows, cols
        self.has_documents = self.has_weights = False
        self.tokens, self.targets, self.document_begin = (self._filled("i", value) for value in (0, -100, 0))
        self.weights = self._filled("f", 1)

    def _filled(self, kind: str, value: int) -> memoryview:
        return memoryview(array(kind, [value]) * (self.rows * self.cols)).cast("B").cast(kind, (self.rows, self.cols))  # type: ignore[call-overload]

    def _arrays(self) -> tuple[Any, ...]:
        documents = self.document_begin if self.has_documents else None
        return self.tokens, self.targets, documents, self.weights if self.has_weights else None


def _arrays(item: Any) -> tuple[Any, ...]:
    """Returns an item of a source as (tokens, targets, document_begin or None, weights or None)."""
    if isinstance(item, Mapping):
        unknown = set(item) - {"tokens", "targets", "document_begin", "weights"}
        if unknown or not {"tokens", "targets"} <= set(item):
            raise ValueError(
                "a batch as a dict has tokens, targets and perhaps document_begin and weights; this one has "
                + ", ".join(map(str, item))
            )
        return item["tokens"], item["targets"], item.get("document_begin"), item.get("weights")
    if isinstance(item, (tuple, list)) and len(item) in (2, 3, 4):
        return (*item, None, None)[:4]
    raise TypeError(
        "a data source gives (tokens, targets), (tokens, targets, document_begin) or "
        f"(tokens, targets, document_begin, weights), not {type(item).__name__}"
    )


class Called:
    """A callable source. It fills the batch and returns None or True, or returns arrays, or returns False at the
    end."""

    def __init__(self, fill: Callable[[SourceBatch], Any]):
        self._fill = fill

    def __call__(self, step: int, samples: int, rows: int, cols: int) -> tuple[Any, ...] | None:
        batch = SourceBatch(step, samples, rows, cols)
        answer = self._fill(batch)
        if answer is False:
            return None
        if answer is None or answer is True:
            return batch._arrays()
        return _arrays(answer)


class Iterated:
    """An iterable source, such as a generator or a DataLoader. If a position is requested again, it gets the same
    batch."""

    def __init__(self, batches: Iterable[Any]):
        self._next = iter(batches)
        self._last: tuple[int, Any] | None = None

    def __call__(self, step: int, samples: int, rows: int, cols: int) -> tuple[Any, ...] | None:
        if self._last is None or self._last[0] != samples:
            try:
                with InterruptHeld():  # KeyboardInterrupt inside a generator would end it for good
                    self._last = (samples, _arrays(next(self._next)))
            except StopIteration:
                return None
        return self._last[1]


def source_of(source: Iterable[Any] | Callable[[SourceBatch], Any]) -> Called | Iterated:
    if callable(source):
        return Called(source)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, Mapping)):
        return Iterated(source)
    raise TypeError(f"a data source is an iterable of batches or a callable, not {type(source).__name__}")


__all__ = ["SourceBatch"]
