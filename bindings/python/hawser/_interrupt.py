"""InterruptHeld: delays Ctrl-C over a few lines that KeyboardInterrupt must not leave half done."""

from __future__ import annotations

import signal
import threading
from types import FrameType


class InterruptHeld:
    """Delays the first Ctrl-C to the end of the block. A second Ctrl-C takes effect at once."""

    def __enter__(self) -> None:
        self._came = False
        self._handler = signal.getsignal(signal.SIGINT)
        self._holds = callable(self._handler) and threading.current_thread() is threading.main_thread()
        if self._holds:
            signal.signal(signal.SIGINT, self._hold)

    def _hold(self, number: int, frame: FrameType | None) -> None:
        if self._came and callable(self._handler):
            self._handler(number, frame)
        self._came = True

    def __exit__(self, *exception: object) -> None:
        if self._holds:
            signal.signal(signal.SIGINT, self._handler)
        if self._came:
            signal.raise_signal(signal.SIGINT)
