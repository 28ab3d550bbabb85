"""Tests that memory does not grow, objects dropped without close, exits during a run, Ctrl-C, fork and threads.

HAWSER_ENGINES sets the number of engines of test_engines_leave_nothing (default: 200; the full test has 5000)."""

import gc
import os
import threading
import warnings

import numpy
import pytest
from conftest import endless, make_batch, run_python, tiny_config

import hawser

ENGINES = int(os.environ.get("HAWSER_ENGINES", "200"))
COUNTED = """
import gc, pathlib

def resident():
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096
"""


def test_engines_leave_nothing():
    result = run_python(
        COUNTED
        + """
import sys
import numpy
from conftest import make_batch, tiny_config
import hawser

def once(seed):
    with hawser.Engine(tiny_config(seed=seed)) as engine:
        engine.set_source([make_batch(seed), make_batch(seed + 1, dtype="int64")])
        engine.set_metrics(lambda metrics: None)
        engine.train(lambda record: None)
        engine.push(*make_batch(seed + 2, dtype="int64"))
        engine.train_step()
        list(engine.generate([1, 2], 3))
        engine.forward(make_batch(seed, rows=1)[0])
        numpy.from_dlpack(engine.view("embedding.tokens.weight"))
        engine.info(), engine.metrics()

for seed in range(60):
    once(seed)
before = resident()
for seed in range(int(sys.argv[1])):
    once(seed)
print(resident() - before)
""",
        ENGINES,
        timeout=1200,
        env={**os.environ, "MALLOC_ARENA_MAX": "1"},
    )
    assert result.returncode == 0, result.stderr
    print(f"{ENGINES} engines: memory grows by {int(result.stdout)} bytes")
    assert int(result.stdout) < 1 << 20


def test_failing_calls_leave_nothing():
    result = run_python(
        COUNTED
        + """
from conftest import make_batch, tiny_config
import numpy, hawser
engine = hawser.Engine(tiny_config())
name = engine.tensors()[0]["name"]

def fail(call, *arguments):
    try:
        call(*arguments)
    except (hawser.Error, TypeError, ValueError):
        return
    raise AssertionError(call)

def once(seed):
    text = f"{seed} " + "x" * 100_000
    fail(hawser.Config, '{"a": "' + text)
    fail(hawser.Config, {text: 1})
    fail(hawser.Config.preset, text)
    fail(engine.load, text)
    fail(engine.tensor, text)
    fail(hawser.Config(tiny_config()).set, text, 1)
    fail(engine.push, numpy.full((4, 6000), seed, "int32"), numpy.full((4, 6000), seed, "int64"))
    fail(engine.evaluate, numpy.full((4, 16), 10**10 + seed), numpy.full((4, 16), seed))
    fail(engine.forward, numpy.full((1, 16), 0), numpy.zeros((1, 25_000), "int32"))
    fail(engine.set_tensor, name, numpy.full(25_000, seed, "float32"))

for seed in range(20):
    once(seed)
before = resident()
for seed in range(200):
    once(seed)
print(resident() - before)
""",
        timeout=300,
    )
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) < 10 << 20


def test_objects_dropped_without_close():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        threads = len(os.listdir("/proc/self/task"))
        for seed in range(10):
            engine = hawser.Engine(tiny_config(seed=seed))
            engine.set_source(lambda batch, engine=engine: make_batch(engine.progress().step))  # makes a reference cycle
            engine.set_metrics(lambda metrics, engine=engine: engine.progress())
            engine.train(until_step=2)
        del engine
        gc.collect()
        assert len(os.listdir("/proc/self/task")) <= threads
    with pytest.warns(ResourceWarning, match="without close"):
        hawser.Engine(tiny_config()).__del__()


def test_a_view_outlives_its_engine_and_its_own_object():
    engine = hawser.Engine(tiny_config())
    name = engine.tensors()[0]["name"]
    weights, view = engine.tensor(name), engine.view(name)
    unused = engine.view(name)
    engine.close()
    array = numpy.from_dlpack(view)
    del view, unused
    gc.collect()
    assert (array == weights).all()


def test_close_beside_train_metrics_and_cancel():
    for _ in range(10):
        engine = hawser.Engine(tiny_config())
        engine.set_source(endless())
        ended = []

        def use(call, ended=ended):
            try:
                while True:
                    call()
            except (hawser.Cancelled, hawser.BadHandle, hawser.Busy) as error:
                ended.append(error)

        calls = [lambda: engine.train(until_step=10**9), engine.metrics, engine.progress, engine.cancel]
        threads = [threading.Thread(target=use, args=(call,)) for call in calls]
        for thread in threads:
            thread.start()
        while engine.progress().step < 2 and not ended:
            pass
        engine.close()
        for thread in threads:
            thread.join(30)
            assert not thread.is_alive()
        assert len(ended) == 4


EXIT = """
import sys, threading, time
from conftest import endless, tiny_config
import hawser

engine = hawser.Engine(tiny_config(), ranks=None)
engine.set_source(endless())
engine.set_metrics(lambda metrics: None)
threading.Thread(target=engine.train, args=(lambda record: None, 10**9), daemon=True).start()
text = hawser.Engine(tiny_config()).generate([1], 10**7)
next(text)
while engine.progress().step < 2:
    time.sleep(0.001)
{end}
"""


@pytest.mark.parametrize("end, code", [("", 0), ("sys.exit(3)", 3), ("raise SystemExit", 0), ("1 / 0", 1)])
def test_exits_beside_a_running_train(end, code):
    for _ in range(5):
        result = run_python(EXIT.format(end=end))
        assert result.returncode == code, result
        assert "Fatal" not in result.stderr, result.stderr  # stderr may contain the thread's Cancelled


def test_ctrl_c_ends_a_run_and_the_engine_trains_on():
    result = run_python(
        """
        import os, signal, threading, time
        from conftest import endless, make_batch, tiny_config
        import hawser

        engine = hawser.Engine(tiny_config())

        def interrupt(phase):
            def wait():
                while engine.progress().phase != phase or engine.progress().step < 3 * (phase == "train"):
                    time.sleep(0.001)
                os.kill(os.getpid(), signal.SIGINT)
            threading.Thread(target=wait).start()

        def fill(batch):
            batch.tokens[0, 0], batch.targets[0, 0] = 1, 2

        for source in (endless(), fill):
            engine.set_source(source)
            for callback in (None, lambda record: None):
                interrupt("train")
                try:
                    engine.train(callback, until_step=10**9)
                except KeyboardInterrupt:
                    step = engine.progress().step
                    engine.train(until_step=step + 2)
                    print(engine.progress().step - step)
        interrupt("generate")
        tokens = None
        try:
            tokens = engine.generate([1], 10**7)
            for token in tokens:
                pass
        except KeyboardInterrupt:
            if tokens is not None:
                tokens.close()  # the signal may have come between two tokens
            print("generate", engine.evaluate(*make_batch()).tokens)
        """
    )
    assert result.stdout.split() == ["2", "2", "2", "2", "generate", "64"], result


def test_ctrl_c_at_the_start_of_a_text_leaves_the_engine_free():
    result = run_python(
        """
        import signal, threading
        from conftest import make_batch, tiny_config
        import hawser

        engine = hawser.Engine(tiny_config())
        start = threading.Thread.start

        def interrupted(thread):
            start(thread)
            signal.raise_signal(signal.SIGINT)

        threading.Thread.start = interrupted
        try:
            engine.generate([1], 10**7)
        except KeyboardInterrupt:
            print("interrupted", engine.evaluate(*make_batch()).tokens)
        threading.Thread.start = start
        print(len(list(engine.generate([1], 3))))
        """
    )
    assert result.stdout.split() == ["interrupted", "64", "3"], result


def test_ctrl_c_within_a_generator_leaves_it_whole():
    result = run_python(
        """
        import os, signal
        from conftest import endless, tiny_config
        import hawser

        given = []

        def rows():
            for batch in endless():
                given.append(batch)
                if len(given) == 3:
                    os.kill(os.getpid(), signal.SIGINT)
                yield batch

        engine = hawser.Engine(tiny_config())
        engine.set_source(rows())
        try:
            engine.train(until_step=10)
        except KeyboardInterrupt:
            print(engine.progress().step, len(given))
        engine.train(until_step=10)
        print(engine.progress().step, len(given))
        """
    )
    assert result.stdout.split() == ["2", "3", "10", "10"], result


def test_fork():
    result = run_python(
        """
        import os
        from conftest import endless, tiny_config
        import hawser

        engine = hawser.Engine(tiny_config())
        engine.set_source(endless())
        engine.train(until_step=2)
        child = os.fork()
        if child == 0:
            try:
                engine.train_step()
            except hawser.Forked as error:
                engine.close()
                with hawser.Engine(tiny_config()) as own:
                    own.set_source(endless())
                    own.train(until_step=3)
                    os._exit(own.progress().step)
            os._exit(100)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), engine.train_step().step)

        import multiprocessing

        def train(steps):
            with hawser.Engine(tiny_config()) as own:
                own.set_source(endless())
                own.train(until_step=steps)
                return own.progress().step

        with multiprocessing.get_context("fork").Pool(2) as pool:
            print(*pool.map(train, [1, 2, 3]))
        """
    )
    assert result.stdout.split() == ["3", "3", "1", "2", "3"], result


def test_other_threads_run_during_long_calls(engine):
    engine.set_source(endless())
    counted = 0
    thread = threading.Thread(target=engine.train, kwargs={"until_step": 300})
    thread.start()
    while thread.is_alive():
        counted += 1
    assert counted > 100
