"""Tokenizer: converts between text and tokens of a model, without an engine or with one."""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from . import _native
from ._handle import Handle
from .arrays import tokens_of

Path = Union[str, bytes, "os.PathLike[str]"]


class Tokenizer(Handle):
    """The tokenizer and the chat template of a model.

    path: a tokenizer.json, a Hugging Face folder, or a checkpoint; Engine.tokenizer returns the tokenizer of an
    engine's model. All methods may run concurrently on any threads. Raises NotFound without a tokenizer.json,
    DataInvalid for files that cannot be read, and Unavailable without the text module.
    """

    _destroy = staticmethod(_native.hws_tokenizer_destroy)

    def __init__(self, path: Path):
        self._own(_native.hws_tokenizer_open(path))

    @classmethod
    def _of(cls, handle: int) -> Tokenizer:
        made = cls.__new__(cls)
        made._own(handle)
        return made

    @staticmethod
    def train(files: Iterable[Path], vocab_size: int, path: Path, special_tokens: Iterable[str] = ()) -> None:
        """Trains a byte-level BPE of at most vocab_size tokens on UTF-8 files, and writes it as a tokenizer.json.

        special_tokens come first in the vocabulary. Equal files give an identical tokenizer.json. Raises DataInvalid,
        AlreadyExists.
        """
        names = [os.fsdecode(file) for file in files]
        _native.hws_tokenizer_train(json.dumps(names), vocab_size, json.dumps(list(special_tokens)), path)

    def info(self) -> dict[str, Any]:
        """Returns vocab_size, end_of_text, end_tokens, special_tokens, chat_template, digest, template_digest."""
        return json.loads(_native.hws_tokenizer_info(self._open))

    def encode(self, text: str | bytes, *, add_special: bool = False) -> array[int]:
        """Returns the tokens of a text, array('i'). add_special: add the special tokens that begin or end a text."""
        tokens = array("i")
        flags = _native.HWS_TEXT_ADD_SPECIAL if add_special else 0
        data = text.encode() if isinstance(text, str) else text
        tokens.frombytes(_native.hws_tokenizer_encode(self._open, data, flags))
        return tokens

    def decode(self, tokens: Sequence[int] | Any, *, skip_special: bool = False, whole: bool = False) -> str:
        """Converts tokens to text. skip_special: omit special tokens. whole: omit an incomplete character at the
        end."""
        flags = (_native.HWS_TEXT_SKIP_SPECIAL if skip_special else 0) | (_native.HWS_TEXT_WHOLE if whole else 0)
        return _native.hws_tokenizer_decode(self._open, tokens_of(tokens), flags).decode("utf-8", "replace")

    def render(
        self,
        messages: Iterable[Mapping[str, Any]],
        *,
        tools: Iterable[Mapping[str, Any]] | None = None,
        add_generation_prompt: bool = False,
        **variables: Any,
    ) -> str:
        """Renders a chat as text with the model's template. Other variables that the template reads may be passed too.

        Raises FailedPrecondition for a model without a template, DataInvalid if the template refuses the chat.
        """
        chat: dict[str, Any] = {**variables, "messages": list(messages), "add_generation_prompt": add_generation_prompt}
        if tools is not None:
            chat["tools"] = list(tools)
        return _native.hws_tokenizer_render(self._open, json.dumps(chat)).decode()


__all__ = ["Tokenizer"]
