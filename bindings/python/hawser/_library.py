"""Loads the extension module over libhawser, and explains the cause if that fails."""

from __future__ import annotations

import glob
import os

_HERE = os.path.dirname(os.path.abspath(__file__))


def _machine(path: str) -> str:
    """Returns the architecture for which an ELF file was built, or "" if it is no such file."""
    try:
        with open(path, "rb") as file:
            header = file.read(20)
    except OSError:
        return ""
    if len(header) < 20 or header[:4] != b"\x7fELF":
        return ""
    number = int.from_bytes(header[18:20], "little")
    return {62: "x86-64", 183: "aarch64"}.get(number, f"ELF machine {number}")


def _for_another_processor(folder: str) -> str:
    """Names the first library of the folder that is for processors of another architecture; "" if there is none. The loader
    skips such a file and reports that it does not exist."""
    own = _machine("/proc/self/exe")
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), "*.so*"))):
        theirs = _machine(path)
        if own and theirs and theirs != own:
            return f"{path} is for {theirs} processors, but this Python is {own}; install the wheel for {own}. "
    return ""


try:
    from . import _native
except ImportError as error:
    raise ImportError(
        f"hawser: libhawser.so.0 cannot be loaded for the module in {_HERE} ({error}). {_for_another_processor(_HERE)}"
        "Install the library of the same version: it comes with the wheel (pip install --no-index --find-links DIR --force-reinstall hawser-train, DIR: the "
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
