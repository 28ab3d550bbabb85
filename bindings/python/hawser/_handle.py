"""Handle: the base class of all objects of the library. Its handle is closed by close(), by `with`, or at exit."""

from __future__ import annotations

import atexit
import weakref
from typing import Any, TypeVar

from . import _native
from .errors import BadHandle

_live: weakref.WeakSet[Handle] = weakref.WeakSet()
_Self = TypeVar("_Self", bound="Handle")


class Handle:
    """An object of the library. It is closed by close(), at the end of its `with` block, or by the garbage
    collector."""

    _handle = 0

    @staticmethod
    def _destroy(handle: int) -> None:
        """The library's destroy function for this class."""

    def _own(self, handle: int) -> None:
        self._handle = handle
        _live.add(self)

    @property
    def _open(self) -> int:
        """Returns the handle for a call of the library."""
        if not self._handle:
            raise BadHandle(f"this {type(self).__name__} is closed: make another one")
        return self._handle

    @property
    def closed(self) -> bool:
        """True if close was called."""
        return not self._handle

    def close(self) -> None:
        """Closes the object and frees its memory, after its calls on other threads end. May be called twice."""
        handle, self._handle = self._handle, 0
        if handle:
            self._destroy(handle)

    def _hurry(self) -> None:
        """Ends the work that close would wait for."""

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(f"{type(self).__name__} cannot be sent to another process; send its config or a checkpoint")


@atexit.register
def _close_all() -> None:
    # Otherwise a daemon thread inside train would return to an interpreter that no longer exists.
    _native.end_callbacks()
    live = list(_live)
    for handle in live:
        handle._hurry()
    for handle in live:
        handle.close()
