"""What all objects of the library have in common: a handle that ends with close, with `with`, or at exit."""

from __future__ import annotations

import atexit
import weakref
from typing import Any, TypeVar

from . import _native
from .errors import BadHandle

_live: weakref.WeakSet[Handle] = weakref.WeakSet()
_Self = TypeVar("_Self", bound="Handle")


class Handle:
    """An object of the library. close() ends it; so does leaving its `with` block, and the garbage collector."""

    _handle = 0

    @staticmethod
    def _destroy(handle: int) -> None:
        """The library's destroy function of the class."""

    def _own(self, handle: int) -> None:
        self._handle = handle
        _live.add(self)

    @property
    def _open(self) -> int:
        """The handle, for a call of the library."""
        if not self._handle:
            raise BadHandle(f"this {type(self).__name__} is closed: make another one")
        return self._handle

    @property
    def closed(self) -> bool:
        """Whether close was called."""
        return not self._handle

    def close(self) -> None:
        """Ends the object and frees what it holds; waits for its calls on other threads. May be called twice."""
        handle, self._handle = self._handle, 0
        if handle:
            self._destroy(handle)

    def _hurry(self) -> None:
        """Ends what close would wait for."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"{type(self).__name__} lives in one process; send its config or a checkpoint instead")


@atexit.register
def _close_all() -> None:
    # A daemon thread within train would come back to an interpreter that has gone.
    _native.end_callbacks()
    live = list(_live)
    for handle in live:
        handle._hurry()
    for handle in live:
        handle.close()
