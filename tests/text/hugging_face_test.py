#!/usr/bin/env python3
"""Compares tokenizers and chat templates with Hugging Face's own packages.

  hugging_face_test.py tokens GOLDEN_TOKENIZERS [COUNT]    tokenises random Unicode strings, compared with tokenizers
  hugging_face_test.py templates GOLDEN_TOKENIZERS         renders TRL's templates, compared with transformers

Exits with 77 (skipped) if such a package is not installed.
"""
import importlib.util
import json
import pathlib
import random
import shutil
import sys
import tempfile
import unicodedata

import hawser

FAMILIES = ("gemma", "gpt2", "llama2", "llama3", "mistral", "mixed", "qwen2")
WORDS = ("the", "don't", "I'LL", "Straße", "naïve", "привет", "日本語", "مرحبا", "ไทย", "  ", "\n\n", "\t", "1234567", "3.14", "<s>", "</s>",
         "<|im_start|>", "▁", "Ġ", "e\u0301", "\u200d", "\ufeff", "👩\u200d👩\u200d👧", "ﬁ", "①", "ǆ", "\u00ad", "\u2028", "\u0085", "_", "--", "...")


def skip(package):
    print(f"skipped: {package} is not installed")
    sys.exit(77)


def string(rng):
    """Returns a text of words, characters of one Unicode block, and any characters."""
    parts = []
    for _ in range(rng.randrange(1, 12)):
        kind = rng.randrange(4)
        if kind == 0:
            parts.append(rng.choice(WORDS))
        elif kind == 1:
            parts.append("".join(chr(rng.randrange(32, 127)) for _ in range(rng.randrange(1, 8))))
        else:
            start = rng.randrange(0x110000 if kind == 2 else 0x3000)
            parts += [chr(code) for code in (start + rng.randrange(40) for _ in range(rng.randrange(1, 6)))
                      if code < 0x110000 and not 0xD800 <= code < 0xE000]
    return "".join(parts)


def compare_tokens(golden, count):
    if importlib.util.find_spec("tokenizers") is None:
        skip("tokenizers")
    import tokenizers

    different = 0
    for family in FAMILIES:
        path = str(golden / family / "tokenizer.json")
        theirs, ours = tokenizers.Tokenizer.from_file(path), hawser.Tokenizer(path)
        theirs.no_truncation(), theirs.no_padding()
        rng = random.Random(family)
        for _ in range(-(-count // len(FAMILIES))):
            text, special = string(rng), rng.random() < 0.5
            ids = theirs.encode(text, add_special_tokens=special).ids
            same = list(ours.encode(text, add_special=special)) == ids
            for skipped in (False, True):
                same = same and ours.decode(ids, skip_special=skipped) == theirs.decode(ids, skip_special_tokens=skipped)
            if not same:
                different += 1
                print(f"{family}: {text!r}: {list(ours.encode(text, add_special=special))}, not {ids}")
    print(f"{count} strings, {different} different, of Unicode {unicodedata.unidata_version}")
    return different == 0


TOOLS = [{"type": "function", "function": {
    "name": "weather", "description": "Say \"hi\" & <b>",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "description": "Stadt ä"}}, "required": ["city"]}}}]
CALL = [{"type": "function", "function": {"name": "weather", "arguments": {"city": "Köln", "n": 1.5, "yes": True, "no": None, "l": [1, "a"]}}}]


def say(role, content, **more):
    return {"role": role, "content": content, **more}


CHATS = [
    [say("user", "Hi")],
    [say("user", "Hi"), say("assistant", "Hello there")],
    [say("system", "Be good."), say("user", "1+1?"), say("assistant", "2"), say("user", " And <b>'2'+2?\n"), say("assistant", "4\n")],
    [say("system", "Use tools."), say("user", "Weather?"), say("assistant", "", tool_calls=CALL),
     say("tool", '{"t": 3}', name="weather"), say("assistant", "3 degrees."), say("user", "Thanks"), say("assistant", "Gladly")],
    [say("user", "q"), say("assistant", "<think>\nhm\n</think>\n\nanswer"), say("user", "r"), say("assistant", "<think>x</think>y")],
    [say("user", "q"), say("assistant", "answer", reasoning_content="because"), say("user", "r"), say("assistant", "z")],
    [say("user", "emoji 🎉 é"), say("assistant", "日本語")],
]


def model_folder(folder, golden, template):
    """Fills a folder with a tokenizer and the template."""
    shutil.copy(golden / "llama3" / "tokenizer.json", folder)
    names = {"bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", **names}))
    (folder / "chat_template.jinja").write_text(template)


def rendered(call):
    try:
        return call()
    except Exception as error:
        return type(error)


def compare_templates(golden):
    found = importlib.util.find_spec("trl")
    if found is None or importlib.util.find_spec("transformers") is None:
        skip("trl or transformers")
    import transformers

    same = refused = different = masks = 0
    for path in sorted(pathlib.Path(found.submodule_search_locations[0]).rglob("*.jinja")):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            model_folder(folder, golden, path.read_text())
            ours, theirs = hawser.Tokenizer(folder), transformers.PreTrainedTokenizerFast.from_pretrained(folder)
            for chat in CHATS:
                for tools in (None, TOOLS):
                    for prompt in (False, True):
                        expected = rendered(lambda: theirs.apply_chat_template(
                            chat, tools=tools, add_generation_prompt=prompt, tokenize=False))
                        got = rendered(lambda: ours.render(chat, tools=tools, add_generation_prompt=prompt))
                        if isinstance(expected, type) or isinstance(got, type):
                            refused += isinstance(expected, type) and isinstance(got, type)
                            different += isinstance(expected, type) != isinstance(got, type)
                        else:
                            same += expected == got
                            different += expected != got
                        if (expected != got) and not (isinstance(expected, type) and isinstance(got, type)):
                            print(f"{path.name}: {chat!r}\n  theirs {expected!r}\n  ours   {got!r}")
            if "{% generation %}" in path.read_text() or "{%- generation" in path.read_text():
                more, wrong = compare_masks(path.name, folder, theirs)
                masks, different = masks + more, different + wrong
    print(f"{same} renders the same, {refused} refused by both, {different} different; {masks} chats with the same mask")
    return different == 0


def compare_masks(name, folder, theirs):
    """Compares the loss masks of this library and of Transformers; counts equal and different masks."""
    same = different = 0
    for number, chat in enumerate(CHATS[1:3]):  # their masks have holes if a character is several tokens, as in CHATS[6]
        rows, out = folder / f"{number}.jsonl", folder / f"rows-{number}"
        rows.write_text(json.dumps({"messages": chat}) + "\n")
        try:
            theirs_now = theirs.apply_chat_template(chat, return_assistant_tokens_mask=True, return_dict=True)
        except Exception:
            continue
        ids, mask = list(theirs_now["input_ids"]), list(theirs_now["assistant_masks"])
        if 1 not in mask:
            continue
        hawser.prepare(folder, rows, out, sequence=len(ids), packing=False)
        preview = hawser.preview(out, 0)
        document = preview["documents"][0]
        text = document["text"].encode()
        learned = [text[begin:end].decode(errors="replace") for begin, end in document["learned"]]
        expected, run = [], []
        for token, is_learned in zip(ids + [None], mask + [0]):
            if is_learned:
                run.append(token)
            elif run:
                expected.append(theirs.decode(run))
                run = []
        if (document["learned_tokens"], learned) == (sum(mask), expected):
            same += 1
        else:
            different += 1
            print(f"{name}: {chat!r}\n  theirs {sum(mask)} {expected!r}\n  ours   {document['learned_tokens']} {learned!r}")
    return same, different


def main():
    what, golden = sys.argv[1], pathlib.Path(sys.argv[2])
    passed = compare_tokens(golden, int(sys.argv[3]) if len(sys.argv) > 3 else 10_000) if what == "tokens" else compare_templates(golden)
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
