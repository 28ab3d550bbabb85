"""llama.cpp's own library as the reader of GGUF files, for tests.

The prebuilt library of the npm package @node-llama-cpp/linux-x64 is called through ctypes. Its two structs of
parameters are opaque here: the library's defaults are passed back, except for the context's length, which comes
first, and for fields that are found by their defaults.
"""
import ctypes
import os
import struct
from pathlib import Path

OPAQUE = 1024  # more bytes than either struct of parameters has
F16, F32 = 1, 0  # ggml's numbers for types


class Params(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_uint8 * OPAQUE)]


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32)] + [(name, ctypes.c_void_p) for name in (
        "token", "embd", "pos", "n_seq_id", "seq_id", "logits")]


class LlamaCpp:
    def __init__(self, folder):
        folder = Path(folder)
        for name in ("libggml-base.so", *(f.name for f in sorted(folder.glob("libggml.v*.so")))):
            last = ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
        last.ggml_backend_load_all_from_path(str(folder).encode())
        self.lib = ctypes.CDLL(str(next(folder.glob("libllama.v*.so"))), mode=ctypes.RTLD_GLOBAL)
        lib, p = self.lib, ctypes.c_void_p
        for name, result, arguments in (
                ("llama_model_default_params", Params, []), ("llama_context_default_params", Params, []),
                ("llama_model_load_from_file", p, [ctypes.c_char_p, Params]),
                ("llama_init_from_model", p, [p, Params]), ("llama_free", None, [p]),
                ("llama_model_free", None, [p]), ("llama_model_get_vocab", p, [p]),
                ("llama_vocab_n_tokens", ctypes.c_int32, [p]),
                ("llama_batch_get_one", Batch, [p, ctypes.c_int32]), ("llama_decode", ctypes.c_int32, [p, Batch]),
                ("llama_get_logits_ith", ctypes.POINTER(ctypes.c_float), [p, ctypes.c_int32]),
                ("llama_tokenize", ctypes.c_int32, [p, ctypes.c_char_p, ctypes.c_int32, p, ctypes.c_int32,
                                                    ctypes.c_bool, ctypes.c_bool]),
                ("llama_detokenize", ctypes.c_int32, [p, p, ctypes.c_int32, p, ctypes.c_int32, ctypes.c_bool,
                                                      ctypes.c_bool]),
                ("llama_model_chat_template", ctypes.c_char_p, [p, ctypes.c_char_p]),
                ("llama_adapter_lora_init", p, [p, ctypes.c_char_p]),
                ("llama_set_adapters_lora", ctypes.c_int32, [p, p, ctypes.c_size_t, p]),
                ("llama_log_set", None, [p, p])):
            function = getattr(lib, name)
            function.restype, function.argtypes = result, arguments
        self.messages = []
        logger = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, p)
        self.log = logger(lambda level, text, _: self.messages.append(text.decode(errors="replace")))
        lib.llama_log_set(self.log, None)

    def open(self, path):
        del self.messages[:]
        model = self.lib.llama_model_load_from_file(os.fsencode(path), self.lib.llama_model_default_params())
        if not model:
            raise RuntimeError(f"llama.cpp does not load {path}:\n" + "".join(self.messages[-12:]))
        return Model(self, model)


def context_params(lib, length):
    """The defaults with this length, one thread, no flash attention, and keys and values in f32."""
    params = lib.llama_context_default_params()
    data = bytearray(params.bytes)
    struct.pack_into("<I", data, 0, length)
    chosen = data.index(struct.pack("<iiii", -1, -1, -1, -1))  # the last of these is flash attention's: automatic
    assert struct.unpack_from("<ii", data, chosen - 12) == (4, 4)  # threads
    struct.pack_into("<ii", data, chosen - 12, 1, 1)
    struct.pack_into("<i", data, chosen + 12, 0)
    at = next(i for i in range(16, OPAQUE - 8, 8)
              if data[i - 16:i] == bytes(16) and struct.unpack_from("<ii", data, i) == (F16, F16))
    struct.pack_into("<ii", data, at, F32, F32)
    params.bytes[:] = data
    return params


class Model:
    def __init__(self, llama, model):
        self.llama, self.lib, self.model = llama, llama.lib, model
        self.vocab = self.lib.llama_model_get_vocab(model)
        self.adapter = None

    def vocab_size(self):
        return self.lib.llama_vocab_n_tokens(self.vocab)

    def tokenize(self, text, add_special=False, parse_special=True):
        data = text.encode()
        room = len(data) + 16
        tokens = (ctypes.c_int32 * room)()
        n = self.lib.llama_tokenize(self.vocab, data, len(data), tokens, room, add_special, parse_special)
        assert n >= 0, n
        return list(tokens[:n])

    def detokenize(self, tokens):
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        room = 64 * len(tokens) + 64
        text = ctypes.create_string_buffer(room)
        n = self.lib.llama_detokenize(self.vocab, array, len(tokens), text, room, False, True)
        assert n >= 0, n
        return text.raw[:n].decode(errors="replace")

    def chat_template(self):
        text = self.lib.llama_model_chat_template(self.model, None)
        return text.decode() if text is not None else None

    def apply_adapter(self, path):
        self.adapter = self.lib.llama_adapter_lora_init(self.model, os.fsencode(path))
        if not self.adapter:
            raise RuntimeError(f"llama.cpp does not load {path}:\n" + "".join(self.llama.messages[-12:]))

    def _context(self, length):
        context = self.lib.llama_init_from_model(self.model, context_params(self.lib, length))
        assert context, "".join(self.llama.messages[-12:])
        if self.adapter:
            adapters = (ctypes.c_void_p * 1)(self.adapter)
            scales = (ctypes.c_float * 1)(1.0)
            assert self.lib.llama_set_adapters_lora(context, adapters, 1, scales) == 0
        return context

    def _step(self, context, token):
        one = (ctypes.c_int32 * 1)(token)
        result = self.lib.llama_decode(context, self.lib.llama_batch_get_one(one, 1))
        assert result == 0, result
        return self.lib.llama_get_logits_ith(context, -1)[:self.vocab_size()]

    def logits(self, tokens):
        """The logits after each of the tokens, which are fed one by one."""
        context = self._context(max(len(tokens), 8))
        rows = [self._step(context, token) for token in tokens]
        self.lib.llama_free(context)
        return rows

    def greedy(self, tokens, count):
        """The count most likely tokens behind these, one after the other."""
        context = self._context(len(tokens) + count + 8)
        for token in tokens:
            row = self._step(context, token)
        made = []
        for _ in range(count):
            made.append(max(range(len(row)), key=row.__getitem__))
            row = self._step(context, made[-1])
        self.lib.llama_free(context)
        return made

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.lib.llama_model_free(self.model)

