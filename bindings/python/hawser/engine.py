"""The engine: a model in training, or for inference."""

from __future__ import annotations

import json
import warnings
import weakref
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable

from . import _native, records
from ._handle import Handle
from .arrays import floats_like, import_numpy, tokens_of
from .comm import Comm
from .config import Config, Path, as_config
from .errors import OutOfRange
from .generation import Generation, pieces_of_text
from .operation import Operation
from .records import Evaluation, Progress, Sizes, StepResult, TrainRecord
from .source import SourceBatch, source_of
from .steps import Steps
from .tensors import TensorView, kind_number
from .tokenizer import Tokenizer

_TRACE = {name: getattr(_native, "HWS_TRACE_" + name.upper()) for name in ("off", "instructions", "kernels")}


class Engine(Handle):
    """A model with its weights, its optimizer and its data, ready to train.

    with hawser.Engine(config) as engine:
        for record in engine.steps():
            print(record.step, record.loss)

    config: a Config, or any argument of Config. ranks: the number of ranks, as threads of this process. comm: the comm
    whose ranks the engine uses and keeps alive. inference=True: only evaluate, forward and generate work. base: an
    engine for inference whose frozen weights this one borrows. Several may borrow at once; the base may be closed
    before them.

    Arrays of tokens are C-contiguous int32 or int64 of [rows, cols], with the buffer protocol or DLPack; int64 is copied
    and must fit int32. targets[t] is the token that position t predicts; -100 masks it. Calls that only read may run
    concurrently on any threads. Any other call needs the engine to itself, and raises Busy otherwise. progress,
    metrics, sizes, flight and cancel work on any thread at any time. Long calls let other Python threads run.

    Raises ConfigInvalid with all problems, OutOfMemory, NotFound, DataInvalid, CheckpointCorrupt and others.
    """

    _destroy = staticmethod(_native.hws_engine_destroy)

    def __init__(
        self,
        config: Config | Mapping[str, Any] | str | Path,
        *,
        ranks: int | None = None,
        comm: Comm | None = None,
        inference: bool = False,
        base: Engine | None = None,
    ):
        if ranks is not None and comm is not None:
            raise ValueError("ranks creates its own comm: pass either ranks or comm")
        self._source: Callable[..., Any] | None = None
        self._metrics: Callable[[dict[str, Any]], Any] | None = None
        self._shapes: dict[str, tuple[int, ...]] | None = None
        self._comm = Comm.local(ranks) if ranks is not None else comm
        made, flags = as_config(config), _native.HWS_ENGINE_INFERENCE if inference else 0
        over = 0 if self._comm is None else self._comm._open
        if base is not None:
            self._own(_native.hws_engine_create_on(base._open, made._open, over, flags))
        elif self._comm is not None:
            self._own(_native.hws_engine_create_ranks(made._open, over, flags))
        else:
            self._own(_native.hws_engine_create(made._open, flags))

    def _hurry(self) -> None:
        if self._handle:
            _native.hws_engine_cancel(self._handle)

    def __del__(self) -> None:
        if self._handle:
            warnings.warn("an Engine was dropped without close()", ResourceWarning, source=self, stacklevel=2)
        self.close()

    def __repr__(self) -> str:
        return "Engine(closed)" if self.closed else f"Engine(step={self.progress().step})"

    # ---------------------------------------------------------------------------------------------- training

    def train(self, callback: Callable[[TrainRecord], Any] | None = None, until_step: int = 0) -> None:
        """Trains until `until_step` (0: train.steps of the config), and validates and saves as the config specifies.

        callback(record) is called after each step, on this thread. The run ends if it returns False, or if it raises;
        train then raises the same exception. It may push, evaluate, forward and save. Ctrl-C ends the run after a step
        with KeyboardInterrupt, and the engine can continue. Raises Cancelled after cancel(). The logger is "hawser".
        """
        from .run_log import told  # logging takes a fifth of the time of `import hawser`

        _native.hws_engine_train(self._open, until_step, told(self.metrics, callback))

    def steps(self, until_step: int = 0) -> Steps:
        """Returns an iterator over steps until `until_step` (0: train.steps) or the end of the source.

        len() is the number of remaining steps, for tqdm(engine.steps()). Only train validates and saves.
        """
        return Steps(self, until_step)

    def train_step(self) -> StepResult:
        """Takes one optimizer step on the pushed batch; without one, on the source's batch or the config's data.
        Raises Numeric after too many skipped steps, DataInvalid, OutOfRange at the end of the source's data.
        """
        return StepResult(*_native.hws_engine_train_step(self._open))

    def forward_backward(self) -> StepResult:
        """Runs the gradient phase of a step on the next batch. The step is pending until commit or discard."""
        return StepResult(*_native.hws_engine_forward_backward(self._open))

    def backward_with(self, tokens: Any, targets: Any, gradients: Any, document_begin: Any = None) -> StepResult:
        """Runs the gradient phase of your own objective. gradients: float32 [rows, cols], its derivatives by the
        targets' log-probabilities, not divided by the number of targets."""
        batch = (tokens, targets, document_begin, None)
        return StepResult(*_native.hws_engine_backward_with(self._open, batch, gradients))

    def commit(self) -> StepResult:
        """Runs the update phase of the pending step: clips the gradients and updates the weights."""
        return StepResult(*_native.hws_engine_commit(self._open))

    def discard(self, rewind: bool = False) -> StepResult:
        """Drops the gradients of the pending step. rewind: neither the data nor the schedule advances."""
        return StepResult(*_native.hws_engine_discard(self._open, int(rewind)))

    def cancel(self) -> None:
        """Ends a running train, evaluate or generate at its next step; that call raises Cancelled."""
        _native.hws_engine_cancel(self._open)

    def push(self, tokens: Any, targets: Any, document_begin: Any = None, weights: Any = None, references: Any = None,
             teacher: tuple[Any, Any] | None = None) -> None:
        """Copies the batch of the next step: arrays of [global_batch, sequence]; with batch.ramp, of
        [info()["step_rows"], sequence].

        document_begin: the column where the document of each position starts; None: each row is one document.
        weights: float32, the weight of each target's loss; None: all 1. The divisor remains the number of unmasked
        targets. references: float32, for an objective with a reference model: the sum of its logprobs for each row.
        teacher: with teacher.top, what top_logprobs of the teacher returns for these tokens.
        Raises DataInvalid for ids outside the vocabulary and for negative or non-finite numbers, Busy if a batch is
        already waiting, ValueError and TypeError for arrays of the wrong shape or type.
        """
        batch = (tokens, targets, document_begin, weights, references, *(teacher or (None, None)))
        _native.hws_data_push(self._open, batch)

    def set_source(self, source: Iterable[Any] | Callable[[SourceBatch], Any] | None) -> None:
        """Sets a source of training batches that replaces the config's data; None restores the config's data.

        An iterable, such as a generator or a PyTorch DataLoader, yields (tokens, targets), (tokens, targets,
        document_begin), (tokens, targets, document_begin or None, weights) or a dict with these names, with at most
        global_batch rows of `sequence` tokens. Its end ends train. For a resumed run, begin at the checkpoint's `samples`.

        A callable gets a SourceBatch with its position. It fills the batch and returns None, or returns arrays as above,
        or False at the end. If the source raises, train or train_step raises it too, and the step changes nothing.
        """
        if source is None:
            _native.hws_data_set_source(self._open, None)
            self._source = None
            return
        asked = source_of(source)
        me = weakref.ref(self)  # the library's reference must not keep the engine alive through the source
        old, self._source = self._source, asked
        try:
            _native.hws_data_set_source(self._open, lambda *batch: me()._source(*batch))  # type: ignore[union-attr, misc]
        except BaseException:
            self._source = old
            raise

    # ------------------------------------------------------------------------------------------- the model

    def use_average(self, on: bool = True) -> None:
        """Swaps the weights with their moving averages (optimizer.average), or back. Meanwhile training raises."""
        _native.hws_engine_use_average(self._open, int(on))

    def evaluate(self, tokens: Any = None, targets: Any = None, document_begin: Any = None, weights: Any = None, *,
                 max_batches: int = 0) -> Evaluation:  # fmt: skip
        """Computes the mean loss of a batch with any number of rows, or of max_batches batches of validation data.
        Raises FailedPrecondition without validation data, Cancelled.
        """
        if tokens is None and any(array is not None for array in (targets, document_begin, weights)):
            raise TypeError("evaluate: targets need tokens: pass both")
        batch = None if tokens is None else (tokens, targets, document_begin, weights)
        return Evaluation(*_native.hws_engine_eval(self._open, batch, max_batches))

    def forward(self, tokens: Any, document_begin: Any = None, *, out: Any = None) -> Any:
        """Returns logits, float32 of [rows, cols, vocab_size]; for a reward model scores, [rows, cols, 1].

        out: any writable C-contiguous float32 array of that size, which is filled and returned instead.
        """
        out = floats_like(tokens, self.sizes().outputs) if out is None else out
        _native.hws_engine_forward(self._open, (tokens, None, document_begin, None), out)
        return out

    def logprobs(self, tokens: Any, targets: Any, document_begin: Any = None, *, out: Any = None) -> Any:
        """Returns each target's log-probability in nats, float32 of [rows, cols]; 0 if masked. out: as in forward."""
        out = floats_like(tokens) if out is None else out
        _native.hws_engine_logprobs(self._open, (tokens, targets, document_begin, None), out)
        return out

    def top_logprobs(self, tokens: Any, top: int, document_begin: Any = None) -> tuple[Any, Any]:
        """Returns the likeliest next tokens of each position, int32, and their log-probabilities, float32: [rows, cols, top]
        each, the likeliest first; of equally likely ones, the lower id. push takes them as `teacher`."""
        logprobs = floats_like(tokens, top)
        ids = logprobs.view("int32").copy()
        _native.hws_engine_top_logprobs(self._open, (tokens, None, document_begin, None), top, ids, logprobs)
        return ids, logprobs

    def generate(
        self,
        prompt: Sequence[int] | Any,
        max_tokens: int = 64,
        *,
        temperature: float = 1.0,
        top_k: int = 0,
        top_p: float = 1.0,
        seed: int = 0,
        stop_token: int = -1,
        stop_tokens: Sequence[int] | Any = (),
    ) -> Generation:
        """Continues the prompt (ints, or an array of one dimension). Returns an iterator over tokens as they are made.

        temperature 0: greedy. top_k 0 and top_p 1: sample among all tokens. stop_token and each of stop_tokens end the
        text and are yielded too.

        The engine is busy until the iterator has ended or is closed. Raises DataInvalid, Numeric, Cancelled.
        """
        request = (tokens_of(prompt), max_tokens, temperature, top_k, top_p, seed, stop_token, tokens_of(stop_tokens))
        return Generation(self, request, int)

    def generate_text(self, prompt: str, max_tokens: int = 64, **options: Any) -> Generation:
        """Generates like generate, but yields text, for models with a tokenizer or a byte or character vocabulary.

        A character is yielded once all its bytes are known; special tokens are left out.
        """
        names = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0, "stop_token": -1, "stop_tokens": ()}
        if unknown := set(options) - set(names):
            raise TypeError(f"generate_text has no argument {', '.join(sorted(unknown))}")
        names.update(options)
        names["stop_tokens"] = tokens_of(names["stop_tokens"])
        tokens = self.encode(prompt)
        return Generation(self, (tokens, max_tokens, *names.values()), pieces_of_text(self, tokens))

    def tokenizer(self) -> Tokenizer:
        """Returns the tokenizer of the model. Raises FailedPrecondition for a model without a tokenizer."""
        return Tokenizer._of(_native.hws_engine_tokenizer(self._open))

    def encode(self, text: str | bytes) -> array[int]:
        """Converts text to tokens, array('i'). A tokenizer, unlike other vocabularies, also adds special tokens."""
        data = text.encode() if isinstance(text, str) else text
        tokens = array("i")
        tokens.frombytes(_native.hws_text_encode(self._open, data))
        return tokens

    def decode(self, tokens: Sequence[int] | Any) -> str:
        """Converts tokens to text, without special tokens. Bytes that are not UTF-8 become U+FFFD."""
        return _native.hws_text_decode(self._open, tokens_of(tokens)).decode("utf-8", "replace")

    # --------------------------------------------------------------------------------------------- tensors

    def tensors(self) -> list[dict[str, Any]]:
        """Returns all parameters with name, shape, count (of elements) and Hugging Face name."""
        return json.loads(_native.hws_tensor_list(self._open))

    def _shape(self, name: str) -> tuple[int, ...] | None:
        if self._shapes is None:
            self._shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in self.tensors()}
        return self._shapes.get(name)

    def tensor(self, name: str, kind: str = "weight", *, out: Any = None) -> Any:
        """Returns a copy of a tensor as a float32 NumPy array. kind: "weight", "gradient" (while a step is pending),
        "moment1", "moment2" or "average". name: Hawser's name, or the Hugging Face name for a flat copy in Hugging Face's layout.

        out: any writable C-contiguous float32 array of that size, which is filled and returned instead.
        """
        number = kind_number(kind)
        if out is None:
            shape = self._shape(name)
            if shape is None:
                shape = (sum(tensor["count"] for tensor in self.tensors() if tensor["hugging_face_name"] == name),)
            out = import_numpy().empty(shape, "float32")
        _native.hws_tensor_get(self._open, number, name, out)
        return out

    def set_tensor(self, name: str, values: Any, kind: str = "weight") -> None:
        """Sets a weight or a moment from a float32 array of its shape."""
        shape, given = self._shape(name), getattr(values, "shape", None)
        if shape is not None and given is not None and tuple(given) != shape:
            raise ValueError(f"{name} has shape {list(shape)}, but the values have {list(given)}")
        _native.hws_tensor_set(self._open, kind_number(kind), name, values)

    def view(self, name: str, kind: str = "weight") -> TensorView:
        """Returns a view of a tensor for numpy.from_dlpack. Raises Unimplemented for sharded tensors and on GPUs."""
        return TensorView(self, name, kind)

    def tensor_statistics(self) -> list[dict[str, Any]]:
        """Returns the norm, largest magnitude and number of non-finite elements of each gradient of the pending
        step."""
        return json.loads(_native.hws_tensor_statistics(self._open))

    # ----------------------------------------------------------------------------------------- checkpoints

    def save(self, path: Path) -> None:
        """Writes a checkpoint, a directory that must not exist yet. Raises AlreadyExists, Io and others."""
        _native.hws_checkpoint_save(self._open, path)

    def save_async(self, path: Path) -> Operation:
        """Writes a checkpoint during training; returns once the state is copied. `await` the operation, or wait()."""
        return Operation(_native.hws_checkpoint_save_async(self._open, path))

    def load(self, path: Path, *, other_data: bool = False) -> None:
        """Restores a checkpoint; training then resumes bit for bit. other_data: accept a checkpoint of other data.
        Raises NotFound, CheckpointCorrupt, CheckpointIncompatible; in each case the engine is unchanged.
        """
        _native.hws_checkpoint_load(self._open, path, _native.HWS_LOAD_OTHER_DATA if other_data else 0)

    def load_latest(self, folder: Path, *, other_data: bool = False) -> dict[str, Any]:
        """Loads the newest valid checkpoint below `folder`. Returns {"name", "step", "damaged"}. Raises NotFound."""
        flags = _native.HWS_LOAD_OTHER_DATA if other_data else 0
        return json.loads(_native.hws_checkpoint_load_latest(self._open, folder, flags))

    def export(self, to: Path, dtype: str = "") -> None:
        """Makes a Hugging Face folder, or a GGUF file if `to` ends in ".gguf". See hawser.export_checkpoint for dtype."""
        _native.hws_engine_export(self._open, to, dtype)

    def export_adapter(self, to: Path) -> None:
        """Makes a PEFT folder from the adapter, or a file for llama.cpp if `to` ends in ".gguf". (export merges it.)"""
        _native.hws_engine_export_adapter(self._open, to)

    # --------------------------------------------------------------------------------------------- reports

    def info(self) -> dict[str, Any]:
        """Returns model, parameters, memory by category, step, ranks, threads and more."""
        return json.loads(_native.hws_engine_info(self._open))

    def data_info(self) -> dict[str, Any]:
        """Describes the config's data: tokens, validation samples, data cursor, vocabulary."""
        return json.loads(_native.hws_data_info(self._open))

    def sizes(self) -> Sizes:
        """Returns the sizes of a batch."""
        return Sizes(*_native.hws_engine_sizes(self._open))

    def progress(self) -> Progress:
        """Returns the engine's progress, for monitoring, without waiting for a step."""
        return records.progress(_native.hws_engine_progress(self._open))

    @property
    def learning_rate(self) -> float:
        """Returns the learning rate of the pending step, or else of the next step."""
        return _native.hws_engine_learning_rate(self._open)

    def set_metrics(self, callback: Callable[[dict[str, Any]], Any] | None) -> None:
        """Sets a callback for the dict of metrics() after each step; None removes it. If it raises, train ends."""
        if callback is None:
            _native.hws_engine_set_metrics(self._open, None)
            self._metrics = None
            return
        me = weakref.ref(self)
        _native.hws_engine_set_metrics(self._open, lambda text: me()._metrics(json.loads(text)))  # type: ignore[union-attr, misc]
        self._metrics = callback

    def metrics(self) -> dict[str, Any]:
        """Returns the metrics of the last step, including the bytes that one rank sent in it."""
        return json.loads(_native.hws_engine_metrics(self._open))

    def set_trace(self, detail: str) -> None:
        """Sets the detail that is recorded from the next step on: "off", "instructions" or "kernels"."""
        if detail not in _TRACE:
            raise ValueError(f"detail is one of {', '.join(_TRACE)}; not {detail!r}")
        _native.hws_engine_set_trace(self._open, _TRACE[detail])

    def trace(self) -> dict[str, Any]:
        """Returns the last step as trace events for Perfetto (JSON). Raises FailedPrecondition if none was
        recorded."""
        return json.loads(_native.hws_engine_trace(self._open, _native.HWS_FORMAT_JSON))

    def trace_svg(self) -> str:
        """Returns the last step as an SVG image. Raises FailedPrecondition if none was recorded."""
        return _native.hws_engine_trace(self._open, _native.HWS_FORMAT_SVG).decode()

    def profile(self) -> dict[str, Any]:
        """Returns the time of the steps by rank and kernel. Raises FailedPrecondition if nothing was recorded."""
        return json.loads(_native.hws_engine_profile(self._open, _native.HWS_FORMAT_JSON))

    def flight(self) -> dict[str, Any]:
        """Returns the flight recorder: the last calls of each rank to other ranks."""
        return json.loads(_native.hws_engine_flight(self._open, _native.HWS_FORMAT_JSON))


__all__ = ["Engine"]
