"""Tests types: the package and its examples pass mypy --strict, and the stub of the SWIG module is complete."""

import pathlib
import re
import subprocess
import sys

import pytest
from conftest import ROOT

from hawser import _native

PACKAGE = ROOT / "bindings" / "python" / "hawser"
EXAMPLES = ROOT / "bindings" / "python" / "examples"


def mypy(cache: pathlib.Path, *files: pathlib.Path) -> str:
    pytest.importorskip("mypy")
    # json.loads returns Any, but the package's annotations are more precise.
    options = ["--strict", "--no-warn-return-any", f"--cache-dir={cache}", "--no-error-summary"]
    command = [sys.executable, "-m", "mypy", *options, *map(str, files)]
    environment = {"MYPYPATH": str(PACKAGE.parent), "PATH": ""}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250)
    return done.stdout + done.stderr


def test_the_package_and_the_code_of_its_users_pass_a_strict_type_checker(tmp_path):
    assert mypy(tmp_path, PACKAGE, *sorted(EXAMPLES.rglob("*.py"))) == ""
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import hawser\nwith hawser.Engine({}) as engine:\n    engine.train_step().los\n")
    assert 'no attribute "los"' in mypy(tmp_path, wrong)


def test_the_stub_has_the_names_of_the_module():
    stub = (PACKAGE / "_native.pyi").read_text()
    stated = set(re.findall(r"^(?:def )?(\w+)(?=[:(])", stub, re.MULTILINE))
    assert stated == {name for name in vars(_native) if not name.startswith("_") and "SWIG" not in name}
