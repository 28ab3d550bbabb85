"""Generation: an iterator over a text that a thread generates."""

from __future__ import annotations

import codecs
import queue
import threading
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Callable

from . import _native
from ._handle import Handle
from ._interrupt import InterruptHeld

if TYPE_CHECKING:
    from .engine import Engine


class Generation(Iterator[Any]):
    """An iterator over the new tokens of a text, converted by `of_token`. It ends with the text; close() ends it
    early.

    The library generates on a thread of its own and does not wait for the reader. The engine is busy until the iterator
    has ended or is closed; leaving a for loop early and dropping the iterator closes it.
    """

    def __init__(self, engine: Handle, request: tuple[Any, ...], of_token: Callable[[int], Any]):
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._state = _State()
        self._engine = engine  # keeps the engine alive as long as the text
        arguments = (engine._open, request, of_token, self._queue, self._state)
        self._thread = threading.Thread(target=_generate, args=arguments, name="hawser generate", daemon=True)
        try:
            with InterruptHeld():
                self._thread.start()
        except BaseException:  # Ctrl-C
            self.close()
            raise

    def __next__(self) -> Any:
        if self._state.ended:
            raise StopIteration
        try:
            item, error = self._queue.get()
        except BaseException:  # Ctrl-C
            self.close()
            raise
        if item is not None:
            return item
        self.close()
        if error is not None:
            raise error
        raise StopIteration

    def close(self) -> None:
        """Ends the text after the token that is being generated, and waits for that token."""
        self._state.ended = True
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def __del__(self) -> None:
        if hasattr(self, "_thread"):
            self.close()


class _State:
    """State shared with the thread, so that the thread does not keep the iterator alive."""

    ended = False


def _generate(
    handle: int, request: Any, of_token: Callable[[int], Any], tokens: queue.SimpleQueue[Any], state: _State
) -> None:
    def take(token: int) -> bool:
        item = of_token(token)
        if item is not None:
            tokens.put((item, None))
        return not state.ended

    error = None
    try:
        _native.hws_engine_generate(handle, request, take)
    except BaseException as raised:
        error = raised
    tokens.put((None, error))


def pieces_of_text(engine: Engine, prompt: array[int]) -> Callable[[int], str | None]:
    """Returns a function from each new token to the text that it adds to the prompt: complete characters, without
    special tokens.

    Tokens are decoded together with the prompt, because without it the first token could lose its leading space.
    """
    if "tokenizer" not in engine.info():
        handle, decoder = engine._open, codecs.getincrementaldecoder("utf-8")("replace")
        return lambda token: decoder.decode(_native.hws_text_decode(handle, array("i", [token]))) or None
    tokenizer, tokens = engine.tokenizer(), array("i", prompt)
    shown = len(tokenizer.decode(tokens, skip_special=True))

    def piece(token: int) -> str | None:
        nonlocal shown
        tokens.append(token)
        text = tokenizer.decode(tokens, skip_special=True, whole=True)
        added, shown = text[shown:], max(shown, len(text))
        return added or None

    return piece


__all__ = ["Generation", "pieces_of_text"]
