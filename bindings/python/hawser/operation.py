"""Operation: a save that runs in the background."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, NamedTuple

from . import _native
from ._handle import Handle
from .errors import Timeout


class Bytes(NamedTuple):
    """The bytes of tensors written so far, and their total."""

    done: int
    total: int


class Operation(Handle):
    """A save that runs during training, from Engine.save_async. `await operation` and wait() return when it has ended.

    Its methods work on any thread, at any time, and after the engine is closed. Dropping or closing the operation does
    not end the save.
    """

    _destroy = staticmethod(_native.hws_op_destroy)

    def __init__(self, handle: int):
        self._own(handle)

    def wait(self, timeout: float | None = None) -> None:
        """Waits for the end, at most `timeout` seconds (None: no limit).

        Raises Timeout if the save is still running, Cancelled, or the error of the save. Ctrl-C ends the wait, not the
        save.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            left = 0.1 if end is None else max(0.0, min(0.1, end - time.monotonic()))
            try:
                return _native.hws_op_wait(self._open, left)
            except Timeout:
                if self.done() or (end is not None and time.monotonic() >= end):
                    if self.done():
                        return _native.hws_op_wait(self._open, 0)
                    raise

    def done(self) -> bool:
        """True if the save has ended, successfully or not."""
        return _native.hws_op_poll(self._open)

    def progress(self) -> Bytes:
        """Returns the bytes written so far and their total. After the last byte, the save still makes the files
        durable."""
        return Bytes(*_native.hws_op_progress(self._open))

    def cancel(self) -> None:
        """Requests the end of the save, without waiting. The save leaves no files behind and ends with Cancelled,
        unless it was about to finish."""
        _native.hws_op_cancel(self._open)

    async def _ended(self) -> None:
        import asyncio

        while not self.done():
            await asyncio.sleep(0.005)
        _native.hws_op_wait(self._open, 0)

    def __await__(self) -> Generator[Any, Any, None]:
        return self._ended().__await__()


__all__ = ["Operation"]
