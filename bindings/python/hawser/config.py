"""Configs, and the plans computed from them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, Union

from . import _native
from ._handle import Handle

Path = Union[str, bytes, os.PathLike[str]]


class Config(Handle):
    """The config of a run: model, data, optimizer and the rest.

    Config({"model": {...}})      from a dict
    Config('{"model": {...}}')    from JSON, a str that begins with a brace
    Config("run.json")            from a file
    Config.preset("gpt2-124m")    a built-in config
    Config.from_model(folder)     from a checkpoint or a Hugging Face folder

    config["/model/layers"] is the value that a run will use, with defaults and rules applied; assigning to it sets the
    field.

    Raises ConfigParse with the position at which the text is not JSON, ConfigInvalid with all unknown keys, wrong
    types and wrong names at once, OSError for a file that cannot be read.
    """

    _destroy = staticmethod(_native.hws_config_destroy)

    def __init__(self, source: Mapping[str, Any] | str | bytes | os.PathLike[str] | Config = "{}"):
        if isinstance(source, Config):
            self._own(_native.hws_config_clone(source._open))
            return
        if isinstance(source, Mapping):
            data = json.dumps(source, allow_nan=False).encode()
        elif isinstance(source, str) and source.lstrip()[:1] == "{":
            data = source.encode()
        elif isinstance(source, (str, os.PathLike)):
            with open(source, "rb") as file:
                data = file.read()
        elif isinstance(source, (bytes, bytearray, memoryview)):
            data = source
        else:
            raise TypeError(f"a config is made from a dict, JSON or a path, not from {type(source).__name__}")
        self._own(_native.hws_config_parse(data, _native.HWS_FORMAT_JSON))

    @classmethod
    def _of(cls, handle: int) -> Config:
        config = cls.__new__(cls)
        config._own(handle)
        return config

    @classmethod
    def preset(cls, name: str) -> Config:
        """Returns a built-in config; presets() lists the names. Raises NotFound."""
        return cls._of(_native.hws_config_preset(name))

    @classmethod
    def from_model(cls, path: Path) -> Config:
        """Returns the config of the model in a checkpoint or a Hugging Face folder. Data, optimizer and run are yours
        to set."""
        return cls._of(_native.hws_config_from_model(path))

    @classmethod
    def from_binary(cls, data: bytes) -> Config:
        """Makes a config from the result of to_binary."""
        return cls._of(_native.hws_config_parse(data, _native.HWS_FORMAT_BINARY))

    def copy(self) -> Config:
        """Returns an independent config with the same fields."""
        return Config(self)

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Config:
        return Config(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return Config, (self.to_json(),)

    def set(self, pointer: str, value: Any) -> Config:
        """Sets a field, a section or an array element, and returns the config.

        pointer: a JSON pointer, such as "/model/layers". value: any JSON value. On error the config is unchanged.
        """
        _native.hws_config_set(self._open, pointer, json.dumps(value, allow_nan=False))
        return self

    def __setitem__(self, pointer: str, value: Any) -> None:
        self.set(pointer, value)

    def __getitem__(self, pointer: str) -> Any:
        if not isinstance(pointer, str):
            raise TypeError(f'a field is named by a JSON pointer, such as "/model/layers", not {pointer!r}')
        value = self.to_dict(resolved=True)
        for part in pointer.split("/")[1:] if pointer.startswith("/") else [pointer] if pointer else []:
            part = part.replace("~1", "/").replace("~0", "~")
            try:
                value = value[int(part)] if isinstance(value, list) else value[part]
            except (KeyError, IndexError, ValueError, TypeError):
                raise KeyError(f'{pointer}: no such field is set; a field is named as in "/model/layers"') from None
        return value

    def validate(self) -> list[dict[str, Any]]:
        """Returns all problems of the config and of its files, each with "pointer", "message" and "fix"; [] if
        none."""
        return json.loads(_native.hws_config_validate(self._open))

    def explain(self, pointer: str = "") -> dict[str, Any]:
        """Explains the value of a field, of a section, or of all fields (""): value, origin, rule, default, bounds,
        documentation."""
        return json.loads(_native.hws_config_explain(self._open, pointer))

    def prove(self, steps: int = 3) -> dict[str, Any]:
        """Proves that the config's layout of ranks changes no number, by `steps` steps (1 to 1,000) of a shrunk model.

        Returns "equal", "first_difference" and more. Ctrl-C ends the proof. Raises ConfigInvalid for a mesh of one
        rank. """
        return json.loads(_native.hws_config_prove_layout(self._open, steps))

    def fit_ranks(self, ranks: int) -> Config:
        """Returns a config for the same run on another number of ranks, with the same rows per step. Raises
        ConfigInvalid."""
        return Config._of(_native.hws_config_fit_ranks(self._open, ranks))

    def plan(self, cluster: str | None = None, tokens: float = 0) -> Plan:
        """Returns the schedule and memory of the config. `cluster`, `tokens`: see Plan."""
        return Plan(self, cluster, tokens)

    def to_json(self, resolved: bool = False) -> str:
        """Returns the fields that were set, or with `resolved` every field, with defaults, presets and rules
        applied."""
        form = _native.HWS_FORMAT_RESOLVED if resolved else _native.HWS_FORMAT_JSON
        return _native.hws_config_serialize(self._open, form).decode()

    def to_dict(self, resolved: bool = False) -> dict[str, Any]:
        """Returns the fields of to_json as a dict."""
        return json.loads(self.to_json(resolved))

    def to_binary(self) -> bytes:
        """Returns the config as a FlatBuffer with the schema capi/schema/config.fbs."""
        return _native.hws_config_serialize(self._open, _native.HWS_FORMAT_BINARY)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Config) and self.to_dict() == other.to_dict()

    __hash__ = object.__hash__  # hashed by identity, because its fields can change

    def __repr__(self) -> str:
        return "Config(closed)" if self.closed else f"Config({self.to_dict()!r})"


class Plan(Handle):
    """The exact schedule and memory of a config, computed without allocating a tensor. The mesh may be of any size.

    `cluster`: the text of a cluster file, or the name of one in the library ("a100-80", "h100-80", "h200-141"). The plan
    is then for devices that this machine need not have. Its report predicts how long a step takes and, with `tokens`, how
    many days a run of so many tokens takes. Raises InvalidArgument, with all problems of the cluster, or NotFound for an
    unknown name."""

    _destroy = staticmethod(_native.hws_plan_destroy)

    def __init__(self, config: Config | Mapping[str, Any] | str | os.PathLike[str], cluster: str | None = None,
                 tokens: float = 0, imbalance: float = 1):
        made = as_config(config)
        if cluster is None:
            self._own(_native.hws_plan_create(made._open))
        else:
            self._own(_native.hws_plan_create_on(made._open, cluster, tokens, imbalance))

    @classmethod
    def search(cls, config: Config | Mapping[str, Any] | str | os.PathLike[str], cluster: str, ranks: int = 0,
               top: int = 10, imbalance: float = 1) -> Plan:
        """Returns the fastest layouts of a config on a cluster, as a plan whose report has "layouts": each with "fields",
        a config that sets the layout. Fields that the config sets stay as they are. `ranks`: 0 for those of the cluster,
        or else of the config's mesh. Raises ConfigInvalid if no mesh has that many ranks, and OutOfMemory if nothing
        fits."""
        made = as_config(config)
        found = cls.__new__(cls)
        found._own(_native.hws_plan_search(made._open, cluster, ranks, top, imbalance))
        return found

    def report(self) -> dict[str, Any]:
        """Returns memory by category, instructions, FLOPs, whether the run fits this machine, and more."""
        return json.loads(_native.hws_plan_report(self._open, _native.HWS_FORMAT_JSON))

    def trace(self) -> dict[str, Any]:
        """Returns the predicted step of a plan for a cluster, in the form of Engine.trace. Raises FailedPrecondition for a
        plan that predicts no step."""
        return json.loads(_native.hws_plan_trace(self._open, _native.HWS_FORMAT_JSON))

    def trace_svg(self) -> str:
        """Returns trace() as an SVG image."""
        return _native.hws_plan_trace(self._open, _native.HWS_FORMAT_SVG).decode()

    def __str__(self) -> str:
        return _native.hws_plan_report(self._open, _native.HWS_FORMAT_TEXT).decode()


def as_config(source: Config | Mapping[str, Any] | Path) -> Config:
    return source if isinstance(source, Config) else Config(source)


def presets() -> list[str]:
    """Returns the names of the built-in configs."""
    return json.loads(_native.hws_config_presets())


def config_schema() -> dict[str, Any]:
    """Returns the JSON Schema of a config."""
    return json.loads(_native.hws_config_schema(_native.HWS_FORMAT_JSON))


def binary_schema() -> bytes:
    """Returns the schema of to_binary as a FlatBuffers .bfbs file."""
    return _native.hws_config_schema(_native.HWS_FORMAT_BINARY)


__all__ = ["Config", "Plan", "presets", "config_schema", "binary_schema"]
