"""Converts arguments to arrays, and makes arrays for results."""

from __future__ import annotations

from array import array
from typing import Any


def tokens_of(values: Any) -> Any:
    """Returns an array unchanged, and a sequence of ints as an array."""
    if isinstance(values, (list, tuple, range)):
        return array("q", values)
    return values


def import_numpy() -> Any:
    try:
        import numpy
    except ImportError:
        raise ImportError("this call makes a NumPy array: pip install numpy, or pass an array as `out`") from None
    return numpy


def floats_like(tokens: Any, *more: int) -> Any:
    """Returns an uninitialised array with the shape of the tokens, plus further dimensions."""
    numpy = import_numpy()
    shape = numpy.from_dlpack(tokens).shape if hasattr(tokens, "__dlpack__") else numpy.shape(tokens)
    return numpy.empty((*shape, *more), numpy.float32)


__all__ = ["floats_like", "import_numpy", "tokens_of"]
