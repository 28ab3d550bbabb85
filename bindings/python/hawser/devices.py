"""Describes this machine's devices and their speed, and the loaded library."""

from __future__ import annotations

import json
from typing import Any, Callable

from . import _native


def devices() -> list[dict[str, Any]]:
    """Returns the CPU (name, threads, available memory, level), then the GPUs, or the reason why there are none."""
    return json.loads(_native.hws_device_list())


def measure_device(threads: int = 0, seconds: float = 0) -> dict[str, Any]:
    """Returns peak speeds of matrix products (GFLOP/s) and memory (GB/s), measured for about `seconds` (0: 0.5)."""
    return json.loads(_native.hws_device_measure(threads, seconds))


def device_peak(precision: str = "fp32", threads: int = 0, seconds: float = 0) -> float:
    """Returns the operations per second of matrix products in "fp32" or "bf16", measured for about `seconds` (0:
    0.1)."""
    return _native.hws_device_peak(threads, precision, seconds)


def library_info() -> dict[str, Any]:
    """Returns version, compiler, CPU level and modules found of the loaded library, its file ("path") and its ABI
    number ("abi")."""
    info = json.loads(_native.hws_library_info())
    return {**info, "path": _native.library_path(), "abi": _native.hws_library_abi()}


def set_interrupt(poll: Callable[[], bool] | None) -> None:
    """Sets a function that long calls of this thread invoke every 20 ms, or removes it (None). If the function returns
    True, the call ends with Cancelled; if it raises, the exception reaches the caller. On the main thread, long calls
    always check signals too: Ctrl-C raises KeyboardInterrupt from train, evaluate, generate, load, import, export,
    prove and measure."""
    _native.hws_thread_set_interrupt(poll)


def set_progress(callback: Callable[[dict[str, Any]], Any] | None) -> None:
    """Sets a function that Engine(...) calls on this thread while it computes the log-probabilities of the reference of
    /objective, or removes it (None). It receives {"phase": "references", "done": rows, "total": rows}, at most ten
    times a second. If it returns False, Engine(...) raises Cancelled; if it raises, the exception reaches the
    caller."""
    told = None if callback is None else lambda text: callback(json.loads(text))
    _native.hws_thread_set_progress(told)


__all__ = ["devices", "measure_device", "device_peak", "library_info", "set_interrupt", "set_progress"]
