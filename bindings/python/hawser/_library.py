"""Loads the extension module over libhawser, and explains the cause if that fails."""

from __future__ import annotations

import os

_HERE = os.path.dirname(os.path.abspath(__file__))

try:
    from . import _native
except ImportError as error:
    raise ImportError(
        f"hawser: libhawser.so.0 cannot be loaded for the module in {_HERE} ({error}). Install the library of the same "
        "version: it comes with the wheel (pip install --no-index --find-links DIR --force-reinstall hawser-train, DIR: the "
        "folder of the wheel) and in the package libhawser0; LD_LIBRARY_PATH must not lead to another one",
        name=error.name,
        path=error.path,
    ) from None

ABI_VERSION: int = _native.HWS_ABI_VERSION
__version__: str = _native.MODULE_VERSION


def _numbers(version: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in version.split(".")]


def _check() -> None:
    abi, version, path = _native.hws_library_abi(), _native.hws_library_version(), _native.library_path()
    if abi != ABI_VERSION:
        raise ImportError(
            f"hawser: {path} has ABI {abi}, and the module in {_HERE} was built for ABI {ABI_VERSION}: install both from "
            "one version",
            path=path,
        )
    if _numbers(version) < _numbers(__version__):
        raise ImportError(
            f"hawser: {path} is version {version}, and the module in {_HERE} is {__version__}, which needs a library that "
            "is not older: update the library, or install both from one version",
            path=path,
        )


_check()
