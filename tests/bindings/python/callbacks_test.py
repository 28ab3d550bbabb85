"""Tests that exceptions of callbacks reach the caller unchanged, and that the engine can continue training."""

import queue
import socket
import threading

import numpy
import pytest
from conftest import ROOT, endless, make_batch, tiny_config

import hawser


class Boom(Exception):
    pass


def boom(*_):
    raise Boom("mine")


def trains_on(engine):
    engine.set_source(endless())
    before = engine.progress().step
    engine.train(until_step=before + 2)
    assert engine.progress().step == before + 2


@pytest.mark.parametrize("ranks", [None, 2])
def test_every_callback_of_an_engine(ranks):
    layout = {"mesh": {"dp_replicate": 2}, "batch": {"micro_batch": 2}} if ranks else {}
    with hawser.Engine(tiny_config(**layout), ranks=ranks) as engine:
        engine.set_source(endless())
        with pytest.raises(Boom, match="mine"):
            engine.train(boom)
        assert engine.progress().step == 1
        engine.set_metrics(boom)
        with pytest.raises(Boom):
            engine.train()
        engine.set_metrics(None)
        trains_on(engine)

        engine.set_source(boom)
        with pytest.raises(Boom):
            engine.train(until_step=100)
        with pytest.raises(Boom):
            engine.train_step()
        with pytest.raises(Boom):
            engine.forward_backward()
        trains_on(engine)

        def failing():
            yield make_batch(1)
            raise Boom

        engine.set_source(failing())
        with pytest.raises(Boom):
            engine.train(until_step=100)
        trains_on(engine)


def test_system_exit_and_interrupts_of_callbacks_are_exceptions_like_others(engine):
    engine.set_source(endless())
    for kind in (SystemExit, KeyboardInterrupt, GeneratorExit):

        def leave(record, kind=kind):
            raise kind

        with pytest.raises(kind):
            engine.train(leave)
    trains_on(engine)


def test_the_interrupt_of_a_thread(engine):
    engine.set_source(endless())
    try:
        hawser.set_interrupt(lambda: engine.progress().step >= 3)
        with pytest.raises(hawser.Cancelled):
            engine.train(until_step=10**9)
        hawser.set_interrupt(boom)
        with pytest.raises(Boom):
            engine.train(until_step=10**9)
    finally:
        hawser.set_interrupt(None)
    trains_on(engine)


def test_the_progress_of_references():
    config = tiny_config(objective={"kind": "dpo"}, data={"format": "prepared", "path": str(ROOT / "tests/bindings/pairs")})
    seen = []
    hawser.set_progress(seen.append)
    try:
        hawser.Engine(config).close()
        assert seen[0] == {"phase": "references", "done": 0, "total": 24} and seen[-1]["done"] == 24
        hawser.set_progress(lambda now: now["done"] > 0)
        with pytest.raises(hawser.Cancelled, match="0 of 24 references"):
            hawser.Engine(config)
        hawser.set_progress(boom)
        with pytest.raises(Boom):
            hawser.Engine(config)
    finally:
        hawser.set_progress(None)
    hawser.Engine(config).close()


def test_what_a_callback_may_call(engine):
    engine.set_source(endless())
    seen = []

    def look(record):
        seen.append(engine.evaluate(*make_batch()).loss)
        seen.append(list(engine.tensor(engine.tensors()[0]["name"]).shape))
        with pytest.raises(hawser.Busy):
            engine.train_step()
        return len(seen) < 4

    engine.train(look)
    assert len(seen) == 4


def test_an_engine_closed_by_its_own_callback(engine):
    engine.set_source(endless())
    with pytest.raises(hawser.Cancelled):
        engine.train(lambda record: engine.close())
    assert engine.closed


def test_sources_as_dicts_callables_and_with_fewer_rows(engine):
    tokens, targets = make_batch(1)
    engine.push(tokens, targets)
    wanted = engine.forward_backward().loss
    engine.discard(rewind=True)

    def fill(batch):
        assert (batch.rows, batch.cols) == (4, 16)
        batch.tokens[0, 0] = 5  # an element
        numpy.asarray(batch.tokens)[:] = tokens
        numpy.asarray(batch.targets)[:] = targets

    calls = [lambda batch: (tokens, targets), fill, lambda batch: {"tokens": tokens, "targets": targets}]
    sources = [[(tokens, targets)], [{"tokens": tokens, "targets": targets}], [[tokens, targets, tokens * 0]], *calls]
    for source in sources:
        engine.set_source(source)
        assert engine.forward_backward().loss == wanted
        engine.discard(rewind=True)
        if isinstance(source, list):  # the same position gets the same batch
            assert engine.forward_backward().loss == wanted
            engine.discard(rewind=False)
            with pytest.raises(hawser.OutOfRange):
                engine.train_step()
    engine.set_source([(tokens[:2], targets[:2])])
    result = engine.train_step()
    assert result.tokens == 32 and result.samples % 4 == 0


def test_wrong_batches_of_sources(engine):
    tokens, targets = make_batch(1)
    kept = []

    def keep(batch):
        kept.append(numpy.asarray(batch.tokens))

    for source, kind, words in (
        ([tokens], TypeError, "ndarray"),
        ([(tokens,)], TypeError, "tuple"),
        ([{"input_ids": tokens}], ValueError, "input_ids"),
        ([(tokens, None)], ValueError, "targets"),
        ([(tokens[:, :8].copy(), targets[:, :8].copy())], ValueError, "at most 4 rows of 16"),
        ([make_batch(1, rows=5)], ValueError, "at most 4 rows of 16"),
        ([(tokens.astype("f4"), targets)], TypeError, "float32"),
        ([(tokens + 61, targets)], hawser.DataInvalid, "61"),
        (lambda batch: 3, TypeError, "int"),
        (keep, hawser.DataInvalid, "masked"),
    ):
        engine.set_source(source)
        with pytest.raises(kind, match=words):
            engine.train_step()
    kept[0][:] = 7  # the batch that the source kept has its own memory
    for source in (3, "text", {"tokens": tokens}):
        with pytest.raises(TypeError, match="data source"):
            engine.set_source(source)
    trains_on(engine)


class Pair:
    """A transport that passes bytes to another transport of this class."""

    def __init__(self, out, into, fail=None):
        self.out, self.into, self.fail, self.aborted = out, into, fail, []

    def send(self, to_rank, data, timeout_seconds):
        if self.fail:
            raise self.fail
        self.out.put(data)

    def recv(self, from_rank, data, timeout_seconds):
        try:
            data[:] = self.into.get(timeout=min(timeout_seconds, 20))
        except queue.Empty:
            raise TimeoutError("nobody sent anything") from None

    def abort(self, code, message):
        self.aborted.append((code, message))


def run_pair(fail=None):
    one, two = queue.Queue(), queue.Queue()
    transports = Pair(one, two), Pair(two, one, fail)
    config = tiny_config(mesh={"dp_replicate": 2}, batch={"micro_batch": 2}, comm={"timeout_seconds": 3})
    answers = [None, None]

    def rank(number):
        try:
            with hawser.Comm.host(transports[number], number, 2) as comm, hawser.Engine(config, comm=comm) as engine:
                engine.push(*make_batch(1))
                answers[number] = engine.train_step().loss
        except Exception as error:
            answers[number] = error

    threads = [threading.Thread(target=rank, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers, transports


def test_a_transport_in_python():
    answers, _ = run_pair()
    with hawser.Engine(tiny_config(mesh={"dp_replicate": 2}, batch={"micro_batch": 2}), ranks=2) as engine:
        engine.push(*make_batch(1))
        assert answers == [engine.train_step().loss] * 2


def test_a_transport_that_fails():
    answers, transports = run_pair(Boom("the cable is out"))
    assert "the cable is out" in str(answers[1]) and isinstance(answers[1], ConnectionError)
    assert isinstance(answers[0], hawser.Error) and transports[1].aborted
    with pytest.raises(TypeError, match="recv"):
        hawser.Comm.host(type("Half", (), {"send": boom})(), 0, 2)


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


@pytest.mark.parametrize("shared", [True, False])
def test_ranks_of_one_machine_share_memory_unless_told_not_to(shared):
    address, connections = free_address(), [None, None]

    def rank(number):
        config = tiny_config(mesh={"dp_shard": 2})
        with (
            hawser.Comm.address(number, 2, address, shared_memory=shared, timeout_seconds=30) as comm,
            hawser.Engine(config, comm=comm) as engine,
        ):
            connections[number] = engine.info()["connections"]

    threads = [threading.Thread(target=rank, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for counts in connections:
        assert (counts["shared_memory"] > 0, counts["sockets"] > 0) == (shared, not shared)


def test_ranks_over_addresses_with_a_secret():
    address = free_address()
    answers = [None, None]

    def rank(number):
        with hawser.Comm.address(number, 2, address, secret=lambda: b"s" * 32, timeout_seconds=30) as comm:
            answers[number] = comm.info()

    threads = [threading.Thread(target=rank, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer["local_ranks"] for answer in answers] == [[0], [1]]
    with pytest.raises(Boom):
        hawser.Comm.address(0, 2, address, secret=boom)
    with pytest.raises(TypeError, match="bytes"):
        hawser.Comm.address(0, 2, address, secret="s" * 32)
    with pytest.raises(hawser.InvalidArgument):
        hawser.Comm.address(0, 2, address, secret=b"short")


def test_ranks_of_a_launcher(monkeypatch):
    variables = {"RANK": "0", "WORLD_SIZE": "1", "ADDRESS": "127.0.0.1:1", "JOB": "a"}
    for name, value in variables.items():
        monkeypatch.setenv("HAWSER_" + name, value)
    assert hawser.read_env()["world_size"] == 1
    with hawser.Comm.env(job="b") as comm:
        assert comm.info()["kind"] == "env"
