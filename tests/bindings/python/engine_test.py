"""Tests configs, steps, evaluation, generation, tensors, checkpoints and reports, as a user calls them."""

import asyncio
import copy
import json
import math
import pickle
import threading
from xml.etree import ElementTree

import numpy
import pytest
from conftest import endless, make_batch, text_config, tiny_config

import hawser


def test_a_config_comes_from_a_dict_json_a_path_a_preset_and_a_copy(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(tiny_config()))
    config = hawser.Config(tiny_config())
    for other in (hawser.Config(path), hawser.Config(str(path)), hawser.Config(json.dumps(tiny_config())),
                  hawser.Config(config), copy.deepcopy(config), pickle.loads(pickle.dumps(config)),
                  hawser.Config.from_binary(config.to_binary())):  # fmt: skip
        assert other == config
    assert config["/model/layers"] == 2
    config["/model/layers"] = 3
    assert config["/model/layers"] == 3 and config.to_dict()["model"]["layers"] == 3
    assert config["/optimizer/learning_rate"] == 0.01
    with pytest.raises(KeyError, match="/model/layer"):
        config["/model/layer"]
    assert config.explain("/model/layers")["origin"] == "set"
    assert "quickstart" in hawser.presets()
    assert hawser.Config.preset("quickstart").validate()[0]["pointer"] == "/data/sources"
    assert hawser.config_schema()["type"] == "object" and hawser.binary_schema()
    with pytest.raises(TypeError, match="not from int"):
        hawser.Config(3)


def test_plans_and_proofs():
    plan = hawser.Config(tiny_config()).plan()
    assert plan.report()["fits"] and "memory" in str(plan).lower()
    there = hawser.Config(tiny_config()).plan("h100-80", tokens=1e9)
    foretold = there.report()["foretold"]
    assert foretold["seconds"] > 0 and foretold["run"]["days"] > 0 and "MFU" in str(there)
    assert there.trace()["otherData"]["predicted"] is True
    assert ElementTree.fromstring(there.trace_svg()).tag.endswith("svg")
    with pytest.raises(hawser.FailedPrecondition, match="hws_plan_create_on"):
        plan.trace()
    best = hawser.Plan.search(tiny_config(), "h100-80", ranks=1, top=2).report()["layouts"][0]
    assert best["seconds"] > 0 and "batch" in best["fields"]
    with pytest.raises(hawser.InvalidArgument, match="/device: is missing"):
        hawser.Plan(tiny_config(), '{"name": "mine"}')
    config = hawser.Config(tiny_config(mesh={"dp_replicate": 2}, batch={"micro_batch": 2}))
    assert config.prove(2)["equal"] is True
    assert config.fit_ranks(1)["/batch/micro_batch"] * config.fit_ranks(1)["/batch/grad_accum_steps"] == 4


def test_steps_train_and_fit_a_progress_bar(engine):
    engine.set_source(endless())
    steps = engine.steps()
    assert len(steps) == 8
    losses = [record.loss for record in steps]
    assert len(losses) == 8 and losses[-1] < losses[0] and len(steps) == 0
    assert engine.progress().step == 8 and engine.progress().phase == "idle"
    assert list(engine.steps()) == []


def test_train_tells_each_step_and_ends_on_false(engine):
    engine.set_source(endless())
    records = []
    engine.train(lambda record: records.append(record))
    assert [record.step for record in records] == list(range(1, 9))
    assert records[0].total_steps == 8 and records[0].saved is False and math.isnan(records[0].validation_loss)
    engine.train(lambda record: record.step < 10, until_step=20)
    assert engine.progress().step == 10
    engine.train(until_step=12)
    assert engine.progress().step == 12


def test_halves_of_a_step(engine):
    engine.push(*make_batch(1))
    first = engine.forward_backward()
    assert first.outcome == hawser.PENDING
    assert repr(first).startswith("StepResult(outcome=PENDING, step=")
    assert engine.tensor(engine.tensors()[0]["name"], "gradient").any()
    assert engine.tensor_statistics()[0]["norm"] >= 0
    assert engine.discard(rewind=True).outcome == hawser.DISCARDED
    engine.push(*make_batch(1))
    assert engine.forward_backward().loss == first.loss
    assert engine.commit().outcome == hawser.ACCEPTED
    assert engine.learning_rate > 0


def test_gradients_of_an_objective_of_ones_own(engine):
    tokens, targets = make_batch(1)
    targets[0, 3] = -100
    engine.push(tokens, targets)
    known = engine.forward_backward()
    engine.discard(rewind=True)
    gradients = numpy.where(targets == -100, 0, -1 / known.tokens).astype("float32")
    own = engine.backward_with(tokens, targets, gradients)
    assert own.outcome == hawser.PENDING and own.grad_norm == known.grad_norm and abs(own.loss - known.loss) < 1e-6
    assert engine.commit().outcome == hawser.ACCEPTED
    gradients[0, 3] = 1
    with pytest.raises(hawser.DataInvalid, match="row 0, column 3"):
        engine.backward_with(tokens, targets, gradients)


def test_pairs_train_by_dpo():
    config = hawser.Config(tiny_config())
    config["/objective/kind"] = "dpo"
    engine = hawser.Engine(config)
    tokens, targets = make_batch(1)
    references = numpy.asarray(engine.logprobs(tokens, targets)).sum(axis=1)
    with pytest.raises(hawser.InvalidArgument, match="lacks the log-probabilities of the reference"):
        engine.push(tokens, targets)
    with pytest.raises(ValueError, match="references"):
        engine.push(tokens, targets, references=references[:1])
    engine.push(tokens, targets, references=references)
    assert abs(engine.train_step().loss - math.log(2)) < 1e-5
    engine.push(tokens, targets, references=references)
    engine.train_step()
    preferences = engine.metrics()["preferences"]
    assert preferences["margin"] == preferences["chosen_reward"] - preferences["rejected_reward"] > 0


def test_adapters_stand_on_one_base(engine, tmp_path):
    engine.export(tmp_path / "base", "f32")
    on_base = {"init": {"from": str(tmp_path / "base")}}
    base = hawser.Engine(tiny_config(**on_base), inference=True)
    losses = {}

    def train(rank, below):
        with hawser.Engine(tiny_config(adapter={"rank": rank}, **on_base), base=below) as tuned:
            for seed in range(3):
                tuned.push(*make_batch(seed))
                losses[rank, below is None] = tuned.train_step().loss

    threads = [threading.Thread(target=train, args=(rank, base)) for rank in (2, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for rank in (2, 4):
        train(rank, None)
        assert losses[rank, True] == losses[rank, False]
    with pytest.raises(hawser.FailedPrecondition, match="HWS_ENGINE_INFERENCE"):
        hawser.Engine(tiny_config(adapter={"rank": 2}, **on_base), base=engine)
    base.close()


def test_a_reward_model_scores_texts():
    config = hawser.Config(tiny_config())
    config["/model/head"] = "score"  # the objective is then "reward"
    with hawser.Engine(config) as engine:
        tokens, targets = make_batch(1)
        targets[:, -1] = -100  # the last target of a row sets the position of its score
        assert engine.sizes().outputs == 1
        for _ in range(8):
            engine.push(tokens, targets)
            engine.train_step()
        scores = engine.forward(tokens)[:, -1, 0]  # the texts fill their rows
        margin = (scores[0::2] - scores[1::2]).mean()
        assert margin > 0 and engine.metrics()["preferences"]["accuracy"] == 1
        with pytest.raises(hawser.FailedPrecondition, match="has a score head"):
            engine.logprobs(tokens, targets)


def test_evaluate_and_forward(engine):
    tokens, targets = make_batch(1, rows=2)
    result = engine.evaluate(tokens, targets)
    logits = engine.forward(tokens)
    assert logits.shape == (2, 16, 61) and logits.dtype == numpy.float32
    shifted = logits.astype("f8") - logits.max(-1, keepdims=True)
    logp = shifted - numpy.log(numpy.exp(shifted).sum(-1, keepdims=True))
    expected = -numpy.take_along_axis(logp, targets[..., None].astype("i8"), -1).mean()
    assert result.tokens == 32 and abs(result.loss - expected) < 1e-4
    targets[0, 3] = -100
    logprobs = engine.logprobs(tokens, targets)
    assert logprobs.dtype == numpy.float32 and logprobs[0, 3] == 0
    expected = numpy.take_along_axis(logp, numpy.abs(targets[..., None].astype("i8")) % 61, -1)[..., 0]
    expected[0, 3] = 0
    assert numpy.abs(logprobs - expected).max() < 1e-5
    out = numpy.empty((2, 16, 61), "float32")
    assert engine.forward(tokens, out=out) is out and (out == logits).all()
    with pytest.raises(hawser.FailedPrecondition):
        engine.evaluate()


def test_weights_scale_the_loss_of_their_targets(engine):
    tokens, targets = make_batch(1)
    halves = numpy.full(tokens.shape, 0.5, "float32")
    loss = engine.evaluate(tokens, targets).loss
    assert engine.evaluate(tokens, targets, weights=halves).loss == loss / 2
    sources = [[(tokens, targets, None, halves)], [{"tokens": tokens, "targets": targets, "weights": halves}]]

    def fill(batch):
        for to, values in ((batch.tokens, tokens), (batch.targets, targets), (batch.weights, halves)):
            numpy.asarray(to)[:] = values
        batch.has_weights = True

    for source in [*sources, fill]:
        engine.set_source(source)
        assert engine.forward_backward().loss == loss / 2
        engine.discard(rewind=True)
    engine.push(tokens, targets, weights=memoryview(halves))
    assert engine.forward_backward().loss == loss / 2
    engine.discard(rewind=True)
    with pytest.raises(TypeError, match="weights: expected float32"):
        engine.push(tokens, targets, weights=halves.astype("float64"))
    with pytest.raises(ValueError, match="weights: its shape"):
        engine.push(tokens, targets, weights=halves[:2])
    halves[1, 2] = -1
    with pytest.raises(hawser.DataInvalid, match="weight -1 at row 1, column 2"):
        engine.push(tokens, targets, weights=halves)


def test_generate_gives_tokens_as_they_come(engine):
    greedy = list(engine.generate([1, 2, 3], 12, temperature=0))
    assert len(greedy) == 12 and all(0 <= token < 61 for token in greedy)
    assert list(engine.generate(numpy.array([1, 2, 3]), 12, temperature=0)) == greedy
    assert list(engine.generate([1, 2, 3], 12, temperature=0, stop_token=greedy[0])) == greedy[:1]
    assert list(engine.generate([1, 2, 3], 12, temperature=0, stop_tokens=[999, greedy[0]])) == greedy[:1]
    some = engine.generate([1, 2, 3], 12, temperature=0)
    assert next(some) == greedy[0]
    some.close()
    assert list(some) == []
    for token in engine.generate([1, 2, 3], 10**6):  # dropping the iterator ends the text
        break
    assert engine.evaluate(*make_batch()).tokens == 64
    with pytest.raises(hawser.DataInvalid, match="61"):
        list(engine.generate([61], 2))
    with pytest.raises(ValueError):
        list(engine.generate([], 2))


def test_text_of_a_byte_model(text_file):
    with hawser.Engine(text_config(text_file)) as engine:
        engine.train()
        tokens = engine.encode("grün 😀")
        assert bytes(tokens.tolist()) == "grün 😀".encode() and engine.decode(tokens) == "grün 😀"
        pieces = list(engine.generate_text("the ", 16, temperature=0))
        whole = engine.decode(list(engine.generate(engine.encode("the "), 16, temperature=0)))
        assert "".join(pieces) == whole[: len("".join(pieces))] and pieces
        assert engine.data_info()["train_tokens"] > 0
        with pytest.raises(TypeError, match="top_q"):
            engine.generate_text("a", top_q=1)


def test_a_tokenizer_is_learned_reads_and_writes(text_file, tmp_path):
    path = tmp_path / "own.json"
    try:
        hawser.Tokenizer.train([text_file], 280, path, ["<|end|>"])
    except hawser.Unavailable as missing:
        pytest.skip(str(missing))
    with hawser.Tokenizer(path) as tokenizer:
        tokens = tokenizer.encode("grün <|end|>")
        assert tokenizer.decode(tokens) == "grün <|end|>" and tokenizer.decode(tokens, skip_special=True) == "grün "
        assert tokenizer.decode(tokenizer.encode("grü")[:-1], whole=True) == "gr"
        assert tokenizer.info()["vocab_size"] <= 280 and not tokenizer.info()["chat_template"]
        with pytest.raises(hawser.FailedPrecondition, match="chat_template"):
            tokenizer.render([{"role": "user", "content": "Hi"}])
    with pytest.raises(hawser.AlreadyExists):
        hawser.Tokenizer.train([text_file], 280, path)
    config = text_config(text_file)
    config["data"] |= {"vocabulary": "bpe", "vocab_size": 280}
    config["model"].pop("vocab_size", None)
    with hawser.Engine(config) as engine, engine.tokenizer() as tokenizer:
        assert list(engine.encode("the")) == list(tokenizer.encode("the"))
        pieces = list(engine.generate_text("the ", 16, temperature=0))
        whole = tokenizer.decode(list(engine.generate(engine.encode("the "), 16, temperature=0)), skip_special=True)
        assert whole.startswith("".join(pieces))


def test_tensors_are_copied_set_and_viewed(engine):
    name = engine.tensors()[0]["name"]
    weights = engine.tensor(name)
    assert list(weights.shape) == engine.tensors()[0]["shape"]
    view = numpy.from_dlpack(engine.view(name))
    assert (view == weights).all() and not view.flags.writeable
    engine.set_tensor(name, weights * 2)
    assert (view == weights * 2).all()  # the view shows the same memory
    engine.close()
    assert (view == weights * 2).all()  # the view keeps the memory alive
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 0


def test_a_hugging_face_tensor_may_hold_several_parameters(engine):
    name = next(t["hugging_face_name"] for t in engine.tensors() if "c_attn.weight" in (t["hugging_face_name"] or ""))
    parts = [engine.tensor(t["name"]) for t in engine.tensors() if t["hugging_face_name"] == name]
    assert len(parts) == 3
    assert (engine.tensor(name).reshape(-1, 3 * len(parts[0])) == numpy.concatenate(parts).T).all()


def test_checkpoints_saved_and_loaded_with_and_without_waiting(engine, tmp_path):
    engine.set_source(endless())
    engine.train(until_step=3)
    engine.save(tmp_path / "step-3")
    with pytest.raises(FileExistsError):
        engine.save(tmp_path / "step-3")
    operation = engine.save_async(str(tmp_path / "step-003"))
    operation.wait(60)
    assert operation.done() and operation.progress().done == operation.progress().total > 0

    async def save():
        saving = engine.save_async(tmp_path / "awaited")
        await saving
        return saving.done()

    assert asyncio.run(save())
    operation.cancel()
    assert hawser.latest_checkpoint(tmp_path).startswith(str(tmp_path / "step-"))
    hawser.verify_checkpoint(tmp_path / "awaited")
    assert hawser.inspect_checkpoint(tmp_path / "step-3")["step"] == 3
    hawser.average_checkpoints([tmp_path / "step-3", tmp_path / "awaited"], tmp_path / "mean", weights=[1, 3])
    hawser.verify_checkpoint(tmp_path / "mean")
    with pytest.raises(hawser.InvalidArgument, match="two checkpoints"):
        hawser.average_checkpoints([tmp_path / "step-3"], tmp_path / "other")
    with hawser.Engine(tiny_config()) as other:
        other.load(tmp_path / "step-3")
        assert other.progress().step == 3
        assert other.load_latest(tmp_path)["step"] == 3
        with pytest.raises(FileNotFoundError):
            other.load(tmp_path / "none")
    with pytest.raises(hawser.AlreadyExists):
        engine.save_async(tmp_path / "step-3").wait()


def test_hugging_face_and_back(engine, tmp_path):
    engine.export(tmp_path / "hf", "f32")
    hawser.import_checkpoint(tmp_path / "hf", tmp_path / "imported")
    hawser.export_checkpoint(tmp_path / "imported", tmp_path / "again")
    assert (tmp_path / "again" / "config.json").exists()
    config = hawser.Config.from_model(tmp_path / "hf")
    assert config["/model/width"] == 32


def test_reports(engine):
    engine.set_source(endless())
    engine.set_trace("kernels")
    seen = []
    engine.set_metrics(seen.append)
    engine.train(until_step=3)
    assert [metrics["step"] for metrics in seen] == [1, 2, 3] and engine.metrics()["step"] == 3
    engine.set_metrics(None)
    assert engine.trace()["traceEvents"] and engine.profile()["ranks"][0]["kernels"]
    assert engine.info()["step"] == 3 and engine.sizes() == (61, 16, 4, 61)
    with pytest.raises(ValueError, match="kernels"):
        engine.set_trace("everything")


def test_four_ranks(tmp_path):
    config = tiny_config(mesh={"dp_shard": 4}, zero={"stage": 2}, batch={"micro_batch": 1})
    with hawser.Engine(config, ranks=4) as engine:
        engine.set_source(endless())
        engine.train(until_step=2)
        assert len(engine.flight()["ranks"]) == 4 and engine.info()["ranks"] == 4
    with hawser.Comm.local(4) as comm:
        assert comm.info()["kind"] == "local"
        with hawser.Engine(config, comm=comm) as engine:
            engine.push(*make_batch())
            assert engine.train_step().step == 1
            with pytest.raises(NotImplementedError):
                engine.view(engine.tensors()[0]["name"])
    with pytest.raises(ValueError):
        hawser.Engine(config, ranks=4, comm=comm)


def test_progress_and_cancel_from_another_thread(engine):
    engine.set_source(endless())
    raised = []

    def train():
        try:
            engine.train(until_step=10**9)
        except hawser.Cancelled as error:
            raised.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    while engine.progress().step < 5:
        assert engine.progress().phase in ("train", "idle")
    with pytest.raises(hawser.Busy):
        engine.tensors()
    engine.cancel()
    thread.join()
    assert raised and engine.train_step().step == engine.progress().step


def test_devices():
    assert hawser.devices()[0]["kind"] == "cpu"
    assert hawser.device_peak(seconds=0.01) > 1e8
    assert hawser.measure_device(1, 0.05)
    assert hawser.library_info()["abi"] == hawser.ABI_VERSION
