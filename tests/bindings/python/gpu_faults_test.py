"""Tests that Python raises the errors of a machine whose driver, GPU, libraries or memory do not suffice."""

import json
import os
import pathlib

import pytest
from conftest import ROOT

import hawser

TABLE = json.loads((ROOT / "tests" / "bindings" / "gpu_faults.json").read_text())
FAULT = os.environ.get("HAWSER_GPU_FAULT")
pytestmark = pytest.mark.skipif(FAULT is None, reason="python_gpu_faults has the library whose GPU has faults")


@pytest.mark.parametrize("row", TABLE["faults"], ids=lambda row: row["fault"].replace(" ", "_"))
def test_fault(row):
    pathlib.Path(FAULT).write_text(row["fault"])
    with pytest.raises(hawser.Error) as raised:
        hawser.Engine(TABLE["config"])
    assert type(raised.value) is getattr(hawser, row["error"])
    for part in row["says"]:
        assert part in str(raised.value)
