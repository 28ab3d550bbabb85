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
from .tensors import TensorView, kind_number
from .tokenizer import Tokenizer

_TRACE = {name: getattr(_native, "HWS_TRACE_" + name.upper()) for name in ("off", "instructions", "kernels")}


class Engine(Handle):
    """A model with its weights, its optimizer and its data, ready to train.

    with hawser.Engine(config) as engine:
        for record in engine.steps():
            print(record.step, record.loss)

    config: a Config, or what makes one. ranks: so many ranks as threads of this process. comm: all ranks of a comm, which
    the engine keeps alive. inference=True: only evaluate, forward and generate. base: an engine for inference, whose
    weights this one's adapter works on. Any number may stand on one base and run at once; it may be closed before them.

    Arrays of tokens are C-contiguous int32 or int64 of [rows, cols], with the buffer protocol or DLPack; int64 is copied
    and must fit int32. targets[t] is the token that position t predicts; -100 masks it. Calls that only read may run
    beside each other on any thread; any other call needs the engine to itself, and raises Busy otherwise. progress,
    metrics, sizes, flight and cancel work at any time. Long calls let other Python threads run.

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
            raise ValueError("ranks makes a comm of its own: pass either ranks or comm")
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
        """Trains until `until_step` (0: train.steps of the config), and validates and saves as the config says.

        callback(record) is called after each step, on this thread; False ends the run after it, anything else goes on.
        What it raises ends the run and arrives here. It may push, evaluate, forward and save. Ctrl-C ends the run after a
        step and raises KeyboardInterrupt; the engine can train on. Raises Cancelled after cancel(). The logger "hawser"
        hears of each step.
        """
        from .run_log import told  # logging takes a fifth of the time of `import hawser`

        _native.hws_engine_train(self._open, until_step, told(self.metrics, callback))

    def steps(self, until_step: int = 0) -> Steps:
        """An iterator that takes a step for each record, until `until_step` (0: train.steps) or the end of the source.

        len() is the number of steps left, so tqdm(engine.steps()) is a progress bar. Validation and checkpoints are left
        to the loop; train does both.
        """
        return Steps(self, until_step)

    def train_step(self) -> StepResult:
        """One optimizer step on the pushed batch, else on the source's, else on the config's data.

        Raises Numeric after too many skipped steps, DataInvalid, OutOfRange at the end of the source's data.
        """
        return StepResult(*_native.hws_engine_train_step(self._open))

    def forward_backward(self) -> StepResult:
        """The first half of a step: gradients of the next batch. The step is pending until commit or discard."""
        return StepResult(*_native.hws_engine_forward_backward(self._open))

    def backward_with(self, tokens: Any, targets: Any, gradients: Any, document_begin: Any = None) -> StepResult:
        """The same from the gradients of an objective by each target's log-probability, float32 [rows, cols], undivided."""
        batch = (tokens, targets, document_begin, None)
        return StepResult(*_native.hws_engine_backward_with(self._open, batch, gradients))

    def commit(self) -> StepResult:
        """The second half: clips, and updates the weights."""
        return StepResult(*_native.hws_engine_commit(self._open))

    def discard(self, rewind: bool = False) -> StepResult:
        """Or drops the gradients. rewind: the same data comes again, and the schedule does not advance."""
        return StepResult(*_native.hws_engine_discard(self._open, int(rewind)))

    def cancel(self) -> None:
        """Ends a running train, evaluate or generate at its next step, which raises Cancelled. Any thread, any time."""
        _native.hws_engine_cancel(self._open)

    def push(self, tokens: Any, targets: Any, document_begin: Any = None, weights: Any = None, references: Any = None) -> None:
        """Copies the batch of the next step: arrays of [global_batch, sequence].

        document_begin: the column where the document of each position starts; None: each row is one document.
        weights: float32, the weight of each target's loss; None: all 1. The divisor stays the number of unmasked targets.
        references: float32, one number a row, for an objective with a reference: the sum of logprobs over the row's targets under it.
        Raises DataInvalid for ids outside the vocabulary and numbers that are negative or not finite, Busy if a batch is waiting already, ValueError and TypeError for arrays of another shape or type.
        """
        _native.hws_data_push(self._open, (tokens, targets, document_begin, weights, references))

    def set_source(self, source: Iterable[Any] | Callable[[SourceBatch], Any] | None) -> None:
        """Sets where training batches come from instead of the config's data; None: from the config's data again.

        An iterable, such as a generator or a PyTorch DataLoader, yields (tokens, targets), (tokens, targets,
        document_begin), (tokens, targets, document_begin or None, weights) or a dict with these names: at most global_batch rows of `sequence` tokens. Its end ends train. It
        goes on where it is, so for a resumed run pass one that begins at the checkpoint's `samples`.

        A callable is asked by position: it fills a SourceBatch and returns None, or returns arrays as above, or False at
        the end. What the source raises arrives at the caller of train or train_step; the step has changed nothing.
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

    def evaluate(self, tokens: Any = None, targets: Any = None, document_begin: Any = None, weights: Any = None, *,
                 max_batches: int = 0) -> Evaluation:  # fmt: skip
        """The mean loss without gradients: of a batch of any rows, or of the validation data, at most max_batches batches.

        Raises FailedPrecondition without validation data, Cancelled.
        """
        if tokens is None and any(array is not None for array in (targets, document_begin, weights)):
            raise TypeError("evaluate: targets without tokens")
        batch = None if tokens is None else (tokens, targets, document_begin, weights)
        return Evaluation(*_native.hws_engine_eval(self._open, batch, max_batches))

    def forward(self, tokens: Any, document_begin: Any = None, *, out: Any = None) -> Any:
        """The logits of each position: float32 of [rows, cols, vocab_size]; of a reward model scores, [rows, cols, 1].

        out: any writable C-contiguous float32 array of that size, which is filled and returned instead.
        """
        out = floats_like(tokens, self.sizes().outputs) if out is None else out
        _native.hws_engine_forward(self._open, (tokens, None, document_begin, None), out)
        return out

    def logprobs(self, tokens: Any, targets: Any, document_begin: Any = None, *, out: Any = None) -> Any:
        """The log-probability of each target, nats: float32 of [rows, cols], 0 where it is masked. out: as in forward."""
        out = floats_like(tokens) if out is None else out
        _native.hws_engine_logprobs(self._open, (tokens, targets, document_begin, None), out)
        return out

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
        """Continues the prompt (ints, or an array of one dimension), and gives an iterator of new tokens as they come.

        temperature 0: greedy. top_k 0 and top_p 1: sample among all tokens. stop_token, or any of
        stop_tokens, ends the text, and is delivered.
        The engine is busy until the iterator has ended or is closed. Raises DataInvalid, Numeric, Cancelled.
        """
        request = (tokens_of(prompt), max_tokens, temperature, top_k, top_p, seed, stop_token, tokens_of(stop_tokens))
        return Generation(self, request, int)

    def generate_text(self, prompt: str, max_tokens: int = 64, **options: Any) -> Generation:
        """The same in text, for models with a tokenizer or a byte or character vocabulary: an iterator of pieces of text.

        A character comes once its bytes are whole; special tokens are left out.
        """
        names = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "seed": 0, "stop_token": -1, "stop_tokens": ()}
        if unknown := set(options) - set(names):
            raise TypeError(f"generate_text has no argument {', '.join(sorted(unknown))}")
        names.update(options)
        names["stop_tokens"] = tokens_of(names["stop_tokens"])
        tokens = self.encode(prompt)
        return Generation(self, (tokens, max_tokens, *names.values()), pieces_of_text(self, tokens))

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the model. Raises FailedPrecondition for a model without one."""
        return Tokenizer._of(_native.hws_engine_tokenizer(self._open))

    def encode(self, text: str | bytes) -> array[int]:
        """Text to tokens, array('i'), for models with a tokenizer, which adds the special tokens of a text, or with a byte
        or character vocabulary."""
        data = text.encode() if isinstance(text, str) else text
        tokens = array("i")
        tokens.frombytes(_native.hws_text_encode(self._open, data))
        return tokens

    def decode(self, tokens: Sequence[int] | Any) -> str:
        """And back, without special tokens. Bytes that are no UTF-8 become U+FFFD."""
        return _native.hws_text_decode(self._open, tokens_of(tokens)).decode("utf-8", "replace")

    # --------------------------------------------------------------------------------------------- tensors

    def tensors(self) -> list[dict[str, Any]]:
        """All parameters with name, shape, count (of elements) and Hugging Face name."""
        return json.loads(_native.hws_tensor_list(self._open))

    def _shape(self, name: str) -> tuple[int, ...] | None:
        if self._shapes is None:
            self._shapes = {tensor["name"]: tuple(tensor["shape"]) for tensor in self.tensors()}
        return self._shapes.get(name)

    def tensor(self, name: str, kind: str = "weight", *, out: Any = None) -> Any:
        """A copy of a tensor as float32, a new NumPy array. kind: "weight", "gradient" (while a step is pending),
        "moment1" or "moment2". name: ours, or its Hugging Face name, which gives it in that layout, flat.

        out: any writable C-contiguous float32 array of that size, which is filled and returned instead.
        """
        number = kind_number(kind)
        if out is None:
            shape = self._shape(name)
            if shape is None:
                counts = {tensor["hugging_face_name"]: tensor["count"] for tensor in self.tensors()}
                shape = (counts.get(name, 0),)
            out = import_numpy().empty(shape, "float32")
        _native.hws_tensor_get(self._open, number, name, out)
        return out

    def set_tensor(self, name: str, values: Any, kind: str = "weight") -> None:
        """Sets a weight or a moment from float32 of its shape."""
        shape, given = self._shape(name), getattr(values, "shape", None)
        if shape is not None and given is not None and tuple(given) != shape:
            raise ValueError(f"{name} has shape {list(shape)}, and the values {list(given)}")
        _native.hws_tensor_set(self._open, kind_number(kind), name, values)

    def view(self, name: str, kind: str = "weight") -> TensorView:
        """A tensor without a copy, for numpy.from_dlpack. Raises Unimplemented for tensors in shards or on a GPU."""
        return TensorView(self, name, kind)

    def tensor_statistics(self) -> list[dict[str, Any]]:
        """Gradients of the pending step: norm, largest magnitude and number of non-finite elements of each parameter."""
        return json.loads(_native.hws_tensor_statistics(self._open))

    # ----------------------------------------------------------------------------------------- checkpoints

    def save(self, path: Path) -> None:
        """Writes a checkpoint, a directory that must not exist yet. Raises AlreadyExists, Io and others."""
        _native.hws_checkpoint_save(self._open, path)

    def save_async(self, path: Path) -> Operation:
        """The same while training goes on: returns when the state is copied. `await` the operation, or wait()."""
        return Operation(_native.hws_checkpoint_save_async(self._open, path))

    def load(self, path: Path, *, other_data: bool = False) -> None:
        """Restores a checkpoint; training goes on bit for bit. other_data: accept that it was trained on other data.

        Raises NotFound, CheckpointCorrupt, CheckpointIncompatible; then nothing has changed.
        """
        _native.hws_checkpoint_load(self._open, path, _native.HWS_LOAD_OTHER_DATA if other_data else 0)

    def load_latest(self, folder: Path, *, other_data: bool = False) -> dict[str, Any]:
        """Loads the newest whole checkpoint below `folder`: {"name", "step", "damaged"}. Raises NotFound if there is none."""
        flags = _native.HWS_LOAD_OTHER_DATA if other_data else 0
        return json.loads(_native.hws_checkpoint_load_latest(self._open, folder, flags))

    def export(self, hf_folder: Path, dtype: str = "") -> None:
        """Makes a Hugging Face folder of the weights. dtype: "f32", "bf16", "f16", or "": as imported, else f32."""
        _native.hws_engine_export(self._open, hf_folder, dtype)

    def export_adapter(self, peft_folder: Path) -> None:
        """Makes a PEFT folder of the adapter, which export merges."""
        _native.hws_engine_export_adapter(self._open, peft_folder)

    # --------------------------------------------------------------------------------------------- reports

    def info(self) -> dict[str, Any]:
        """Model, parameters, memory by category, step, ranks, threads and more."""
        return json.loads(_native.hws_engine_info(self._open))

    def data_info(self) -> dict[str, Any]:
        """The config's data: tokens, validation samples, data cursor, vocabulary."""
        return json.loads(_native.hws_data_info(self._open))

    def sizes(self) -> Sizes:
        """What a batch is made of. Any time."""
        return Sizes(*_native.hws_engine_sizes(self._open))

    def progress(self) -> Progress:
        """Where the engine is, for a monitor. Any thread, any time, without waiting for a step."""
        return records.progress(_native.hws_engine_progress(self._open))

    @property
    def learning_rate(self) -> float:
        """That of the next step, or of the pending one."""
        return _native.hws_engine_learning_rate(self._open)

    def set_metrics(self, callback: Callable[[dict[str, Any]], Any] | None) -> None:
        """Calls callback(metrics) after each step, with the dict of metrics(); None: no more. What it raises ends train."""
        if callback is None:
            _native.hws_engine_set_metrics(self._open, None)
            self._metrics = None
            return
        me = weakref.ref(self)
        _native.hws_engine_set_metrics(self._open, lambda text: me()._metrics(json.loads(text)))  # type: ignore[union-attr, misc]
        self._metrics = callback

    def metrics(self) -> dict[str, Any]:
        """The last step, and what one rank sent in it. Any thread, any time."""
        return json.loads(_native.hws_engine_metrics(self._open))

    def set_trace(self, detail: str) -> None:
        """What is recorded from the next step on: "off", "instructions" or "kernels"."""
        if detail not in _TRACE:
            raise ValueError(f"detail is one of {', '.join(_TRACE)}; not {detail!r}")
        _native.hws_engine_set_trace(self._open, _TRACE[detail])

    def trace(self) -> dict[str, Any]:
        """The last step as trace events for Perfetto: write it as JSON. Raises FailedPrecondition if none was recorded."""
        return json.loads(_native.hws_engine_trace(self._open, _native.HWS_FORMAT_JSON))

    def profile(self) -> dict[str, Any]:
        """Where the time of the steps went, by rank and kernel. Raises FailedPrecondition if nothing was recorded."""
        return json.loads(_native.hws_engine_profile(self._open, _native.HWS_FORMAT_JSON))

    def flight(self) -> dict[str, Any]:
        """The flight recorder: the last calls of each rank to other ranks. Any thread, any time."""
        return json.loads(_native.hws_engine_flight(self._open, _native.HWS_FORMAT_JSON))


class Steps:
    """The iterator of Engine.steps."""

    def __init__(self, engine: Engine, until_step: int):
        self._engine = engine
        self._at, total = engine.progress().step, engine.progress().total_steps
        self._until = until_step or total

    def __iter__(self) -> Steps:
        return self

    def __len__(self) -> int:
        return max(0, self._until - self._at)

    def __next__(self) -> StepResult:
        if self._at >= self._until:
            raise StopIteration
        try:
            result = self._engine.train_step()
        except OutOfRange:  # the end of the source's data
            self._until = self._at
            raise StopIteration from None
        self._at = result.step
        return result


__all__ = ["Engine", "Steps"]
