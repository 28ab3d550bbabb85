"""Tests that the package calls every function of hawser.h and has an exception for each status."""

import re

import hawser
from conftest import ROOT
from hawser import _native, errors

HEADER = (ROOT / "capi" / "include" / "hawser.h").read_text()
# Functions that the typemaps call.
IN_TYPEMAPS = {
    "hws_buffer_data", "hws_buffer_size", "hws_buffer_destroy", "hws_error_take", "hws_error_code", "hws_error_message",
    "hws_error_details", "hws_error_destroy", "hws_comm_create_host",
}  # fmt: skip


def functions():
    return set(re.findall(r"^HWS_API [^;(]*?(hws_[a-z0-9_]+)\(", HEADER, re.MULTILINE))


def test_every_function_is_reached():
    python = "\n".join(path.read_text() for path in (ROOT / "bindings" / "python" / "hawser").glob("*.py"))
    native = "\n".join(
        path.read_text()
        for path in (ROOT / "bindings" / "python").rglob("*")
        if path.suffix in (".i", ".c")
    )
    assert len(functions()) > 60
    for name in functions():
        where = native if name in IN_TYPEMAPS else python
        assert re.search(rf"\b{name}\b", where), f"the package does not use {name}"
        assert name in IN_TYPEMAPS or callable(getattr(_native, name))


def test_every_status_has_an_exception():
    codes = HEADER.split("#define HWS_OK 0", 1)[1].split("typedef", 1)[0]
    statuses = {name: int(code) for name, code in re.findall(r"#define (HWS_[A-Z_]+) (\d+)", codes)}
    assert len(statuses) > 25
    for name, code in statuses.items():
        error = errors.of_status(code, "text", '{"pointer": "/a"}')
        assert type(error) is not hawser.Error and type(error).code == code, f"{name} has no class"
        assert (error.name, str(error), error.pointer) == (name, "text", "/a")
        assert len(type(error).__mro__) > 4 or name == "HWS_CANCELLED", f"{name} is no built-in exception"
        assert getattr(hawser, type(error).__name__) is type(error)
    newer = errors.of_status(99, "text")
    assert type(newer) is hawser.Error and newer.code == 99


def test_every_public_name_is_documented():
    for name in dir(hawser):
        value = getattr(hawser, name)
        if name.startswith("_") or not callable(value):
            continue
        assert value.__doc__, name
        for method, function in vars(value).items() if isinstance(value, type) else ():
            if not method.startswith("_") and callable(function) and not isinstance(function, type):
                assert function.__doc__, f"{name}.{method}"
