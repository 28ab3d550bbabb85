"""Tests wrong arrays, texts, files and closed objects: each exception states what is wrong and what to do."""

import array
import os
import pathlib
import pickle
import shutil
import subprocess

import numpy
import pytest
from conftest import ROOT, make_batch, run_python, tiny_config

import hawser


class OnlyDlpack:
    """An array without the buffer protocol, like a PyTorch tensor."""

    def __init__(self, values, old=False, device=(1, 0)):
        self.values, self.old, self.device = values, old, device

    def __dlpack__(self, **options):
        if self.old and options:
            raise TypeError("unexpected keyword max_version")
        return self.values.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


def test_arrays_of_many_kinds(engine):
    tokens, targets = make_batch(1)
    wanted = engine.evaluate(tokens, targets)
    flat = memoryview(array.array("i", tokens.ravel().tolist())).cast("B").cast("i", (4, 16))
    for given in (tokens.astype("int64"), flat, OnlyDlpack(tokens), OnlyDlpack(tokens.astype("int64")),
                  OnlyDlpack(tokens, old=True), tokens.astype("<i4")):  # fmt: skip
        assert engine.evaluate(given, targets) == wanted
    read_only = tokens.copy()
    read_only.flags.writeable = False
    assert engine.evaluate(read_only, targets) == wanted


def test_wrong_arrays(engine):
    tokens, targets = make_batch(1)
    large = tokens.astype("int64")
    large[1, 3] = 5_000_000_000
    for bad, kind, words in (
        (tokens.astype("float32"), TypeError, "tokens: expected int32 or int64, not float32"),
        (tokens.astype("int16"), TypeError, "not int16"),
        (tokens.astype("uint32"), TypeError, "not uint32"),
        (tokens.astype("bool"), TypeError, "not bool"),
        (tokens.astype(">i4"), TypeError, "format '>i'"),
        (OnlyDlpack(tokens.astype("float64")), TypeError, "not float64"),
        (tokens.T, ValueError, "C-contiguous"),
        (numpy.asfortranarray(tokens), ValueError, "ascontiguousarray"),
        (numpy.repeat(tokens, 2, 1)[:, ::2], ValueError, "C-contiguous"),
        (OnlyDlpack(tokens.T), ValueError, "C-contiguous"),
        (tokens[0], ValueError, r"shape \[rows, cols\], not an array of 1"),
        (tokens[None], ValueError, "of 3"),
        (numpy.zeros((1,) * 9, "int32"), ValueError, "9 dimensions"),
        (large, ValueError, "row 1, column 3 is 5000000000"),
        (-large, ValueError, "-5000000000"),
        (tokens[:, :8].copy(), ValueError, r"targets: its shape is \[4, 16\], and that of tokens \[4, 8\]"),
        ([[1, 2], [3, 4]], TypeError, "not list"),
        (None, TypeError, "not NoneType"),
        ("text", TypeError, "not str"),
        (b"bytes", TypeError, "not uint8"),
    ):
        for call in (engine.push, engine.evaluate):
            if bad is None and call == engine.evaluate:
                continue
            with pytest.raises(kind, match=words):
                call(bad, targets)
    with pytest.raises(hawser.InvalidArgument):
        engine.push(*make_batch(1, rows=3))
    with pytest.raises(hawser.DataInvalid, match="61"):
        engine.push(tokens + 61, targets)
    with pytest.raises(TypeError):
        engine.push(tokens)
    engine.push(tokens, targets)  # no earlier batch is waiting
    with pytest.raises(hawser.Busy):
        engine.push(tokens, targets)


def test_wrong_outputs(engine):
    tokens, _ = make_batch(1)
    name = engine.tensors()[0]["name"]
    read_only = numpy.empty((4, 16, 61), "float32")
    read_only.flags.writeable = False
    for bad, kind, words in (
        (read_only, (ValueError, BufferError), "read-only"),
        (numpy.empty((4, 16, 61), "float64"), TypeError, "not float64"),
        (numpy.empty((61, 16, 4), "float32").T, ValueError, "C-contiguous"),
        (numpy.empty((4, 16, 60), "float32"), hawser.InvalidArgument, "bytes"),
        (b"x" * 100, (ValueError, BufferError), "read-only"),
        ([0.0], TypeError, "not list"),
    ):
        with pytest.raises(kind, match=words):
            engine.forward(tokens, out=bad)
    with pytest.raises(ValueError, match=r"\[61, 32\]"):
        engine.set_tensor(name, numpy.zeros((32, 61), "float32"))
    with pytest.raises(TypeError, match="float64"):
        engine.set_tensor(name, numpy.zeros((61, 32)))
    with pytest.raises(FileNotFoundError, match="no such|none|nothing|not"):
        engine.tensor("none")
    with pytest.raises(ValueError, match="moment1"):
        engine.tensor(name, "weights")
    with pytest.raises(hawser.FailedPrecondition):
        engine.tensor(name, "gradient")
    with pytest.raises(BufferError, match="DLPack 1.0"):
        engine.view(name).__dlpack__()


def test_wrong_texts_and_configs(engine, tmp_path):
    with pytest.raises(hawser.ConfigParse) as caught:
        hawser.Config('{"model": ')
    assert isinstance(caught.value, ValueError) and caught.value.name == "HWS_CONFIG_PARSE"
    with pytest.raises(hawser.ConfigInvalid, match="modle") as caught:
        hawser.Config({"modle": {}, "model": {"layers": "x"}})
    assert len(caught.value.details["problems"]) == 2
    again = pickle.loads(pickle.dumps(caught.value))
    assert (type(again), str(again), again.details) == (type(caught.value), str(caught.value), caught.value.details)
    config = hawser.Config(tiny_config())
    for call in (lambda text: config.set(text, 1), engine.load, hawser.Config.preset, config.explain):
        with pytest.raises(ValueError, match="NUL|null"):
            call("a\0b")
        with pytest.raises(hawser.Error):
            call("no such thing")
    with pytest.raises(UnicodeEncodeError):
        config.set("/model/\ud800", 1)
    with pytest.raises(ValueError):
        config.set("/model/layers", float("nan"))
    with pytest.raises(hawser.ConfigInvalid) as caught:
        hawser.Engine(tiny_config(optimizer={"learning_rate": -1}))
    assert caught.value.details
    strange = tmp_path / "a\udcff b"  # a path whose bytes are not UTF-8
    engine.save(strange)
    assert hawser.inspect_checkpoint(strange)["step"] == 0
    hawser.verify_checkpoint(bytes(strange))
    with pytest.raises(FileExistsError) as caught:
        engine.save(strange)
    assert str(caught.value)


def test_closed_objects(engine):
    config = hawser.Config(tiny_config())
    config.close()
    engine.close()
    engine.close()
    for call in (engine.train, engine.train_step, engine.info, engine.cancel, engine.steps, config.to_json,
                 lambda: hawser.Engine(config), lambda: engine.generate([1])):  # fmt: skip
        with pytest.raises(hawser.BadHandle, match="is closed: make another one"):
            call()
    assert repr(engine) == "Engine(closed)"
    with pytest.raises(TypeError, match="cannot be sent to another process"):
        pickle.dumps(engine)


def test_a_memory_that_is_not_there():
    huge = tiny_config(model={"vocab_size": 61, "context": 16, "layers": 400, "width": 65536, "heads": 1024})
    with pytest.raises(MemoryError) as caught:
        hawser.Engine(huge)
    assert isinstance(caught.value, hawser.OutOfMemory)


def fake_library(folder, **answers):
    """Makes a libhawser.so.0 with every symbol of the real library, whose functions return the values in `answers`."""
    symbols = [line for line in (ROOT / "packaging" / "hawser.symbols").read_text().split() if line.startswith("hws_")]
    bodies = {"hws_library_abi": "unsigned hws_library_abi(void) { return 1; }"}
    bodies["hws_library_version"] = 'const char* hws_library_version(void) { return "0.1.0"; }'
    bodies.update(answers)
    source = folder / "fake.c"
    source.write_text("\n".join(bodies.get(name, f"int {name}(void) {{ return 13; }}") for name in symbols))
    library = folder / "libhawser.so.0"
    versions = pathlib.Path(os.environ["HAWSER_BUILD"]) / "generated" / "hawser.map"
    options = ["-shared", "-fPIC", "-Wl,-soname,libhawser.so.0", f"-Wl,--version-script={versions}"]
    command = ["cc", *options, "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return library


def load_with(folder):
    """Returns the error text of `import hawser` with the library of a folder."""
    result = run_python(
        "try:\n    import hawser\nexcept ImportError as e:\n    print(e)", env=environment(folder)
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def environment(folder):
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), "PYTHONPATH": str(folder)}


@pytest.fixture
def package(tmp_path):
    """Installs the package without the library that normally stands next to it."""
    shutil.copytree(pathlib.Path(hawser.__file__).parent, tmp_path / "hawser", ignore=shutil.ignore_patterns("__pycache__"))
    (module,) = (tmp_path / "hawser").glob("_native*.so")
    data = module.read_bytes()
    build = str(pathlib.Path(hawser.library_info()["path"]).parent).encode()
    assert build in data
    module.write_bytes(data.replace(build, b"/" * len(build)))  # overwrites the run path of the build folder
    return tmp_path


def test_a_missing_library(package):
    assert "libhawser.so.0 cannot be loaded" in load_with(package) and "pip install" in load_with(package)


def test_a_library_for_another_processor(package):
    header = bytearray(pathlib.Path("/proc/self/exe").read_bytes()[:64])
    own, other = ("x86-64", "aarch64") if header[18] == 62 else ("aarch64", "x86-64")
    header[18] = 183 if own == "x86-64" else 62
    (package / "hawser" / "libhawser.so.0").write_bytes(header)
    said = load_with(package)
    assert f"libhawser.so.0 is for {other} processors, but this Python is {own}" in said, said


def test_a_library_with_another_abi(package):
    library = fake_library(package, hws_library_abi="unsigned hws_library_abi(void) { return 7; }")
    words = load_with(package)
    assert f"{library} has ABI 7" in words and "built for ABI 1" in words


def test_an_older_library(package):
    older = 'const char* hws_library_version(void) { return "0.0.9"; }'
    library = fake_library(package, hws_library_version=older)
    words = load_with(package)
    assert f"{library} is version 0.0.9" in words and f"is {hawser.__version__}" in words


def test_no_numpy():
    result = run_python(
        """
        import sys
        sys.modules["numpy"] = None
        import array, hawser
        from array import array
        config = {"cpu": {"threads": 1}, "model": {"vocab_size": 61, "context": 4, "layers": 1, "width": 16, "heads": 2},
                  "batch": {"micro_batch": 1}, "train": {"steps": 2}}
        tokens = memoryview(array("i", [1, 2, 3, 4])).cast("B").cast("i", (1, 4))
        with hawser.Engine(config) as engine:
            engine.push(tokens, tokens)
            print(engine.train_step().step, len(list(engine.generate([1, 2], 3))))
            out = array("f", bytes(4 * 4 * 61))
            engine.forward(tokens, out=out)
            print(any(out))
            try:
                engine.forward(tokens)
            except ImportError as error:
                print(error)
        """
    )
    assert result.stdout.splitlines()[:2] == ["1 3", "True"], result
    assert "pip install numpy" in result.stdout
