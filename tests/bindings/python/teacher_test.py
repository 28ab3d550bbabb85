"""Tests teachers: their rows from top_logprobs, and training with rows that are pushed."""

import numpy
import pytest
from conftest import make_batch, tiny_config

import hawser


def test_a_teacher_equal_to_the_model_changes_nothing():
    config = hawser.Config(tiny_config())
    config["/teacher/top"] = 61
    engine = hawser.Engine(config)
    tokens, targets = make_batch(1)
    with pytest.raises(hawser.InvalidArgument, match="lacks the rows of the teacher"):
        engine.push(tokens, targets)
    ids, logprobs = engine.top_logprobs(tokens, 61)
    assert ids.shape == logprobs.shape == (*tokens.shape, 61) and ids.dtype == numpy.int32
    assert (numpy.sort(ids, -1) == numpy.arange(61)).all() and (numpy.diff(logprobs, axis=-1) <= 0).all()
    for wrong in ((ids[:1], logprobs), (ids, logprobs[..., :3].copy()), (ids, None)):
        with pytest.raises(ValueError, match="teacher_"):
            engine.push(tokens, targets, teacher=wrong)
    engine.push(tokens, targets, teacher=(ids, logprobs))
    assert abs(engine.forward_backward().loss) < 1e-5
