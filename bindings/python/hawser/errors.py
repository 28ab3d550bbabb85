"""Exceptions: one class for each status of the C API. Most also derive from a built-in exception."""

from __future__ import annotations

import json
from typing import Any

from . import _native


class Error(Exception):
    """The failure of a call; its text states what failed, where, on which value, and what to do.

    code: the number of the status, such as 21.
    name: its name, such as "HWS_CONFIG_INVALID".
    details: a dict for programs, with the keys that apply to the error: "pointer", "problems", "file", "offset",
        "tensor", "argument" and others.
    pointer: the JSON pointer of the config field that is wrong, or None.
    """

    code: int = _native.HWS_UNKNOWN

    def __init__(self, message: str = "", details: dict[str, Any] | None = None):
        super().__init__(message)
        self.details = {} if details is None else details

    def __str__(self) -> str:  # OSError's __str__ would change the text
        return str(self.args[0]) if self.args else ""

    @property
    def name(self) -> str:
        return _native.hws_status_name(self.code)

    @property
    def pointer(self) -> str | None:
        return self.details.get("pointer")

    def __reduce__(self) -> tuple[Any, ...]:  # OSError's would lose details when pickled
        return type(self), (str(self), self.details), self.__dict__


class Cancelled(Error):
    """The call was ended by cancel, or by the interrupt poll of its thread. The engine can continue training."""


class Unknown(Error, RuntimeError):
    """An error without a code of its own."""


class InvalidArgument(Error, ValueError):
    """An argument is out of range, or has the wrong shape or size."""


class Timeout(Error, TimeoutError):
    """The time limit has passed; the awaited event may still occur."""


class NotFound(Error, FileNotFoundError):
    """A file, checkpoint, preset or tensor does not exist."""


class AlreadyExists(Error, FileExistsError):
    """The file or folder to be written already exists."""


class Permission(Error, PermissionError):
    """A file may not be read or written, or the secret differs from the other ranks' secret."""


class OutOfMemory(Error, MemoryError):
    """There is not enough memory; the text states how much is needed."""


class FailedPrecondition(Error, RuntimeError):
    """The call does not fit the state of its object."""


class Aborted(Error, RuntimeError):
    """A rank failed earlier: make a new engine."""


class OutOfRange(Error, IndexError):
    """The data source has no more batches."""


class Unimplemented(Error, NotImplementedError):
    """This build or this machine cannot do that."""


class Internal(Error, RuntimeError):
    """A bug of Hawser: please report it."""


class Unavailable(Error, ConnectionError):
    """A rank, an address or an optional module cannot be reached."""


class DataLoss(Error, OSError):
    """Data were lost in transit."""


class Io(Error, OSError):
    """The file system failed, or is full."""


class ConfigParse(Error, ValueError):
    """The text of a config is not JSON."""


class ConfigInvalid(Error, ValueError):
    """The config contradicts itself, its files or this machine; details["problems"] has all problems."""


class DeviceUnavailable(Error, RuntimeError):
    """The device in the config does not exist on this machine."""


class CheckpointCorrupt(Error, ValueError):
    """A checkpoint is damaged."""


class CheckpointIncompatible(Error, ValueError):
    """A checkpoint belongs to another model, other data or another version."""


class Numeric(Error, ArithmeticError):
    """Numbers were not finite, or were outliers too often."""


class DataInvalid(Error, ValueError):
    """A token is outside the vocabulary, or the data do not match the config."""


class Busy(Error, RuntimeError):
    """Another call of this object is running."""


class Forked(Error, RuntimeError):
    """The object belongs to the parent process: make another one in this process."""


class BadHandle(Error, ValueError):
    """The object is closed."""


class AbiMismatch(Error, ImportError):  # type: ignore[misc]  # both define `name`; Error's is used
    """The loaded library has another ABI version."""


class CallbackFailed(Error, RuntimeError):
    """A callback failed without an exception of its own."""


_CLASSES: dict[int, type[Error]] = {}
for _name, _class in (
    ("CANCELLED", Cancelled),
    ("UNKNOWN", Unknown),
    ("INVALID_ARGUMENT", InvalidArgument),
    ("TIMEOUT", Timeout),
    ("NOT_FOUND", NotFound),
    ("ALREADY_EXISTS", AlreadyExists),
    ("PERMISSION", Permission),
    ("OUT_OF_MEMORY", OutOfMemory),
    ("FAILED_PRECONDITION", FailedPrecondition),
    ("ABORTED", Aborted),
    ("OUT_OF_RANGE", OutOfRange),
    ("UNIMPLEMENTED", Unimplemented),
    ("INTERNAL", Internal),
    ("UNAVAILABLE", Unavailable),
    ("DATA_LOSS", DataLoss),
    ("IO", Io),
    ("CONFIG_PARSE", ConfigParse),
    ("CONFIG_INVALID", ConfigInvalid),
    ("DEVICE_UNAVAILABLE", DeviceUnavailable),
    ("CHECKPOINT_CORRUPT", CheckpointCorrupt),
    ("CHECKPOINT_INCOMPATIBLE", CheckpointIncompatible),
    ("NUMERIC", Numeric),
    ("DATA_INVALID", DataInvalid),
    ("BUSY", Busy),
    ("FORKED", Forked),
    ("BAD_HANDLE", BadHandle),
    ("ABI_MISMATCH", AbiMismatch),
    ("CALLBACK", CallbackFailed),
):
    _class.code = getattr(_native, "HWS_" + _name)
    _CLASSES[_class.code] = _class


def of_status(code: int, message: str, details: str = "{}") -> Error:
    """Makes the exception for a status. A code that only a newer library has gives Error itself."""
    known = _CLASSES.get(code, Error)
    error = known(message, json.loads(details) if details else {})
    error.code = code
    if isinstance(error, OSError):
        error.filename = error.details.get("file")
    return error


def status_of(error: BaseException) -> tuple[int, bytes]:
    """Returns the status and the message for an exception that a transport raised."""
    if isinstance(error, Error):
        code = error.code
    else:
        code = _native.HWS_TIMEOUT if isinstance(error, TimeoutError) else _native.HWS_UNAVAILABLE
    message = str(error) or type(error).__name__
    return code, message.encode("utf-8", "backslashreplace").replace(b"\0", b"")


_native.set_error_hooks(of_status, status_of)
