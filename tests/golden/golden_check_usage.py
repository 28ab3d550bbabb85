#!/usr/bin/env python3
"""Tests that golden_check can fail: exit code 1 for wrong values, 2 for wrong usage or a damaged case."""
import json
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile


def exit_code(check, *arguments):
    return subprocess.run([check, *map(str, arguments)], capture_output=True, timeout=60).returncode


def rewrite(path, change):
    """Edits a safetensors file in place with `change(header, data)`."""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header, data = json.loads(raw[8:8 + length]), bytearray(raw[8 + length:])
    change(header, data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def nudge(name):
    """Negates the first element of tensor `name` and adds 1."""
    def change(header, data):
        begin = header[name]["data_offsets"][0]
        value = struct.unpack_from("<d", data, begin)[0]
        struct.pack_into("<d", data, begin, -value + 1.0)
    return change


def main():
    check, source = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as scratch:
        def changed(name, change):
            folder = pathlib.Path(scratch) / name
            shutil.copytree(source, folder)
            change(folder)
            return folder
        cases = [("good", [source], 0)]
        for tensor in ("logits", "losses", "grad.transformer.wte.weight", "after.transformer.h.1.ln_1.bias"):
            folder = changed(tensor, lambda folder: rewrite(folder / "case.safetensors", nudge(tensor)))
            cases.append((f"wrong {tensor}", [folder], 1))
        cases += [
            ("no folder", [], 2), ("two folders", [source, source], 2), ("precision", [source, "--precision", "fp8"], 2),
            ("missing folder", [scratch + "/none"], 2), ("missing config", [source, "--config", "none.json"], 2),
            ("truncated case", [changed("cut", lambda folder: (folder / "case.safetensors").write_bytes(
                (source / "case.safetensors").read_bytes()[:-8]))], 2),
            ("no tolerances", [changed("untold", lambda folder: (folder / "float32_error.json").unlink())], 2),
            ("refused model", [changed("refused", lambda folder: (folder / "config.json").write_text(
                (folder / "config.json").read_text().replace('"gpt2"', '"gpt9"')))], 1),
        ]
        wrong = [f"{name}: exit code {code} instead of {want}" for name, arguments, want in cases
                 if (code := exit_code(check, *arguments)) != want]
    print("\n".join(wrong) or f"{len(cases)} cases as they should be")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
