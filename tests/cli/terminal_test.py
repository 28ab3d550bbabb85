#!/usr/bin/env python3
"""Tests the command's behaviour in a terminal: conversations (answers, commands, Ctrl-C, Ctrl-D), colours, progress
bar.

  terminal_test.py COMMAND GOLDEN_FOLDER
"""
import json
import os
import pathlib
import pty
import select
import subprocess
import sys
import tempfile
import time

SECONDS = 60
MODEL = {"vocab_size": 704, "context": 4096, "layers": 1, "width": 32, "heads": 2, "mlp": "swiglu", "norm": "rms_norm", "position": "rotary",
         "bias": {"all": False}}
# Refuses a second question, so that the test detects whether the history is passed.
TEMPLATE = ("{% if messages | length > 1 %}{{ raise_exception('only one question') }}{% endif %}"
            "{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}")


class Terminal:
    """Runs a program in a terminal of its own."""

    def __init__(self, folder, *words, **variables):
        environment = {**{name: value for name, value in os.environ.items() if name != "NO_COLOR"}, **variables}
        self.said = ""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(words[0], [str(word) for word in words], environment)

    def _read(self, deadline):
        assert time.monotonic() < deadline, f"the terminal waits in vain after: {self.said[-2000:]!r}"
        if not select.select([self.file], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self.file, 65536)
        except OSError:  # the other end is closed
            data = b""
        self.said += data.decode(errors="replace")
        return bool(data)

    def until(self, text):
        """Waits for the text and returns the output before it; later output is left for the next call."""
        deadline = time.monotonic() + SECONDS
        while text not in self.said:
            assert self._read(deadline), f"no {text!r} in {self.said!r}"
        at = self.said.find(text)
        before, self.said = self.said[:at], self.said[at + len(text):]
        return before.replace("\r\n", "\n")

    def type(self, text):
        os.write(self.file, text.encode())

    def end(self):
        """Returns the remaining output and the exit status."""
        deadline = time.monotonic() + SECONDS
        while self._read(deadline):
            pass
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.file)
        return self.said.replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


def make_model(command, golden, folder):
    (folder / "base.json").write_text(json.dumps({
        "seed": 3, "model": MODEL, "data": {"format": "tokens", "token_type": "u16", "path": "ids.u16", "validation_fraction": 0},
        "batch": {"micro_batch": 1, "sequence": 32}, "train": {"steps": 1}}))
    (folder / "ids.u16").write_bytes(b"\x05\x01" * 200)
    for words in (["train", "base.json", "--out", "base"], ["convert", "base", "model"]):
        subprocess.run([command, *words], cwd=folder, check=True, capture_output=True)
    model = folder / "model"
    (model / "tokenizer.json").write_bytes((golden / "tokenizers/llama2/tokenizer.json").read_bytes())
    (model / "chat_template.jinja").write_text(TEMPLATE)
    (model / "generation_config.json").write_text('{"eos_token_id": []}')  # answers end at --max-tokens


def converse(command, folder):
    chat = [command, "chat", "model", "--temperature", "0", "--max-tokens", "6"]
    answer = subprocess.run([*chat, "Where?"], cwd=folder, check=True, capture_output=True).stdout.decode(errors="replace")
    terminal = Terminal(folder, *chat)
    assert "/reset" in terminal.until("\r\n> ")
    for _ in range(2):
        terminal.type("Where?\n")
        assert terminal.until("\r\n> ") + "\n" == "Where?\n" + answer
        terminal.type("Where else?\n")  # the template raises an error; the conversation continues
        assert "only one question" in terminal.until("\r\n> ")
        terminal.type("/reset  \n")
        terminal.until("\r\n> ")
    terminal.type("/quit\n")
    assert "there is no command /quit; /reset begins anew, /exit ends" in terminal.until("\r\n> ")
    terminal.type("\n")
    assert terminal.until("\r\n> ") == ""
    terminal.type("/etc/hosts\n")  # a question
    assert "command" not in terminal.until("\r\n> ")
    terminal.type("\x04")
    assert terminal.end() == ("\n", 0), terminal.said

    terminal = Terminal(folder, *chat)
    terminal.until("\r\n> ")
    terminal.type("/exit\n")
    assert terminal.end()[1] == 0


def interrupt(command, folder):
    chat = [command, "chat", "model", "--max-tokens", "2500"]
    whole = subprocess.run([*chat, "Where?"], cwd=folder, check=True, capture_output=True).stdout.decode(errors="replace")
    assert len(whole) > 2500
    terminal = Terminal(folder, *chat)
    terminal.until("\r\n> ")
    terminal.type("Where?\n")
    terminal.until("Where?\r\n")
    while len(terminal.said) < 20:
        assert terminal._read(time.monotonic() + SECONDS)
    terminal.type("\x03")
    said = terminal.until("\r\n> ")
    assert len(said) < len(whole) * 3 / 4, f"{len(said)} characters of {len(whole)}"
    terminal.type("/exit\n")
    assert terminal.end()[1] == 0


def prepare(command, folder):
    (folder / "rows.jsonl").write_text('{"prompt": "One? ", "completion": "Two."}\n' * 50)

    def words(out):
        return [command, "prepare", "model", "--data", "rows.jsonl", "-o", out, "--sequence", "32", "--show", "1"]

    green, bar = "\x1b[1;32m", "\r[####"
    said, status = Terminal(folder, *words("a")).end()
    assert status == 0 and green + " Two." in said and "[[" not in said and bar in said and "100%" in said, said
    said, status = Terminal(folder, *words("b"), NO_COLOR="").end()
    assert status == 0 and green in said, said
    said, status = Terminal(folder, *words("c"), NO_COLOR="1").end()
    assert status == 0 and "\x1b" not in said and "[[ Two." in said and bar in said, said
    said = subprocess.run(words("d"), cwd=folder, check=True, capture_output=True, text=True).stdout
    assert "\x1b" not in said and "[[ Two." in said and "\r" not in said, said


def references(command, folder):
    """Shows the pass over the reference, which Ctrl-C ends at once."""
    (folder / "pairs.jsonl").write_text('{"prompt": "One? ", "chosen": "Two.", "rejected": "Four."}\n' * 4000)
    terminal = Terminal(folder, command, "train", "model", "--data", "pairs.jsonl", "--out", "dpo", "--dpo", "--set", "/batch/sequence=1024")
    terminal.until("reference: 0 of 4000 pairs")
    terminal.until(" left")
    terminal.type("\x03")
    said, status = terminal.end()
    assert status == 130 and said.count("hawser:") == 1 and "error" not in said, (status, said)
    message = said[said.index("hawser:"):]
    assert "interrupted while the reference's log-probabilities were computed, at " in message and "of 4000 pairs" in message, message
    assert sorted(path.name for path in (folder / "dpo").iterdir()) == ["data"]


def main():
    command, golden = sys.argv[1], pathlib.Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_model(command, golden, folder)
        converse(command, folder)
        interrupt(command, folder)
        prepare(command, folder)
        references(command, folder)


main()
