"""The devices of this machine and how fast they are, and the library itself."""

from __future__ import annotations

import json
from typing import Any, Callable

from . import _native


def devices() -> list[dict[str, Any]]:
    """The CPU (name, threads, available memory, level), then those of the CUDA module, or why there are none."""
    return json.loads(_native.hws_device_list())


def measure_device(threads: int = 0, seconds: float = 0) -> dict[str, Any]:
    """Peaks of matrix products (GFLOP/s) and of memory (GB/s), measured for about `seconds` (0: 0.5)."""
    return json.loads(_native.hws_device_measure(threads, seconds))


def device_peak(precision: str = "fp32", threads: int = 0, seconds: float = 0) -> float:
    """Operations a second of matrix products in "fp32" or "bf16", measured for about `seconds` (0: 0.1)."""
    return _native.hws_device_peak(threads, precision, seconds)


def library_info() -> dict[str, Any]:
    """Version, compiler, CPU levels and optional modules of the loaded library; "path": its file, "abi": its number."""
    info = json.loads(_native.hws_library_info())
    return {**info, "path": _native.library_path(), "abi": _native.hws_library_abi()}


def set_interrupt(poll: Callable[[], bool] | None) -> None:
    """Sets what long calls of this thread ask every 20 ms: when it returns True they end with Cancelled, and what it
    raises arrives at their caller. None: none. On the main thread signals are asked as well, always: Ctrl-C raises
    KeyboardInterrupt from train, evaluate, generate, load, import, export, prove and measure."""
    _native.hws_thread_set_interrupt(poll)


__all__ = ["devices", "measure_device", "device_peak", "library_info", "set_interrupt"]
