"""Tests that losses equal those of the C API bit for bit (tests/bindings/losses.c)."""

import json
import os
import pathlib

import numpy
import pytest

import hawser

WANTED = json.loads((pathlib.Path(os.environ["HAWSER_BUILD"]) / "tests" / "binding_losses.json").read_text())


@pytest.mark.parametrize("run", WANTED["runs"], ids=lambda run: run["name"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_losses_and_norms_are_those_of_the_c_api(run, dtype):
    shape = WANTED["rows"], WANTED["columns"]
    batches = [
        tuple(numpy.array(batch[name], dtype).reshape(shape) for name in ("tokens", "targets"))
        for batch in WANTED["batches"]
    ]
    with hawser.Engine(run["config"], ranks=run["ranks"] if run["ranks"] > 1 else None) as engine:
        results = []
        for batch in batches:
            engine.push(*batch)
            results.append(engine.train_step())
    assert [result.loss for result in results] == run["losses"]
    assert [result.grad_norm for result in results] == run["grad_norms"]

    with hawser.Engine(run["config"], ranks=run["ranks"] if run["ranks"] > 1 else None) as engine:
        engine.set_source(batches)
        assert [result.loss for result in engine.steps()] == run["losses"]
