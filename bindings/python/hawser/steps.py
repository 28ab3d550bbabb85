"""The iterator over an engine's steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .errors import OutOfRange
from .records import StepResult

if TYPE_CHECKING:
    from .engine import Engine


class Steps:
    """The iterator of Engine.steps."""

    def __init__(self, engine: Engine, until_step: int):
        self._engine = engine
        self._at, total = engine.progress().step, engine.progress().total_steps
        self._until = until_step or total

    def __iter__(self) -> Steps:
        return self

    def __len__(self) -> int:
        return max(0, self._until - self._at)

    def __next__(self) -> StepResult:
        if self._at >= self._until:
            raise StopIteration
        try:
            result = self._engine.train_step()
        except OutOfRange:  # the source has no more data
            self._until = self._at
            raise StopIteration from None
        self._at = result.step
        return result


__all__ = ["Steps"]
