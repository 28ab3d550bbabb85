"""Tests the log messages of a run."""

import logging

from conftest import endless, run_python, text_config

import hawser


def test_steps_validations_and_checkpoints_are_logged(caplog, text_file, tmp_path):
    config = text_config(text_file, steps=4, checkpoint={"path": str(tmp_path / "run"), "every": 2})
    config["train"]["eval_every"] = 2
    with hawser.Engine(config) as engine, caplog.at_level(logging.DEBUG, "hawser"):
        engine.train()
    said = [(record.levelname, record.message.split(":")[0]) for record in caplog.records]
    steps = [("DEBUG", f"step {n} of 4") for n in (1, 2, 3, 4)]
    after = [[("INFO", f"step {n}")] * 2 for n in (2, 4)]
    assert said == steps[:2] + after[0] + steps[2:] + after[1], said
    assert ", the best so far" in caplog.records[2].message


def test_what_goes_wrong_is_a_warning(text_file, tmp_path):
    config = text_config(text_file, steps=6, checkpoint={"path": str(tmp_path / "run"), "every": 2})
    result = run_python(
        """
        import json, logging, resource, sys
        import hawser

        logging.basicConfig(stream=sys.stdout, format="%(levelname)s %(message)s")
        engine = hawser.Engine(json.loads(sys.argv[1]))

        def full_at_two(record):
            limit = 100 if record.step == 2 else resource.RLIM_INFINITY
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

        engine.train(full_at_two)
        """,
        hawser.Config(config).to_json(),
    )
    assert result.returncode == 0, result
    (line,) = result.stdout.splitlines()
    assert line.startswith("WARNING a checkpoint could not be written: ") and "step-2" in line, line


def test_a_skipped_step_is_a_warning(caplog, engine):
    name = engine.tensors()[0]["name"]
    engine.set_tensor(name, engine.tensor(name) * float("nan"))
    engine.set_source(endless())
    engine.train(until_step=2)
    assert [record.levelname for record in caplog.records] == ["WARNING", "WARNING"]
    assert caplog.records[0].message.startswith("step 1 was skipped: loss nan")
