#!/usr/bin/env python3
"""Tests that Transformers loads the tokenizers of exported byte and character models, and gives the same results.

Takes the hawser command. Exits with 77 (skipped) if Transformers is not installed.
"""
import pathlib
import subprocess
import sys
import tempfile

try:
    import transformers
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TEXT = "It was a dark\tand stormy night;  the rain fell.\n\n  Été, Straße, 天地玄黃 \U0001f600 'quotes' <|endoftext|> \x07 end\n"
MODEL = ("train quickstart --data text.txt --set /model/layers=1 --set /model/width=32 --set /model/heads=2 "
         "--set /model/context=16 --set /train/steps=1 --set /schedule/warmup_steps=0")


def main():
    hawser, failed = sys.argv[1], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "text.txt").write_bytes((TEXT * 20).encode())

        def run(arguments):
            subprocess.run([hawser, *arguments.split()], cwd=folder, check=True, stdout=subprocess.DEVNULL)

        characters = sorted(set(TEXT), key=ord)
        for kind, ids in (("bytes", list(TEXT.encode())), ("characters", [characters.index(c) for c in TEXT])):
            run(f"{MODEL} --set /data/vocabulary={kind} --out {kind}")
            run(f"convert {kind} hf-{kind}")
            tokenizer = transformers.AutoTokenizer.from_pretrained(folder / f"hf-{kind}")
            theirs = tokenizer(TEXT)["input_ids"]
            again = tokenizer.decode(theirs)
            good = theirs == ids and again == TEXT and len(tokenizer) == (256 if kind == "bytes" else len(characters))
            failed += not good
            print(f"{'ok  ' if good else 'FAIL'} {kind}: {len(theirs)} tokens, round trip {again == TEXT}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
