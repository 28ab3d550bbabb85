"""Tests the completion scripts: every option of each command's help is offered, and so are choices, fields of a config,
presets and files. bash and fish complete lines; zsh completes one in a terminal of its own. A shell that is not installed
is left out, but bash must be there.

    completion_test.py HAWSER
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HAWSER = sys.argv[1]
BASH = r"""
source "$1"
while IFS= read -r line; do
  COMP_LINE=$line COMP_POINT=${#line}
  read -ra COMP_WORDS <<<"$line"
  [[ $line == *' ' ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  _hawser
  (IFS=$'\t'; echo "${COMPREPLY[*]}")
done
"""


def output(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout


def help_of(path):
    """Returns the options, the commands and the choices by option that the help of a command names."""
    text = output(HAWSER, *path, "--help")
    options, commands, choices, section = [], [], {}, ""
    for line in text.splitlines():
        if line and not line.startswith(" "):
            section = line
        found = re.match(r"  (\S+)", line)
        if not found:
            continue
        if section.startswith("Subcommands"):
            commands.append(found.group(1))
        elif found.group(1).startswith("-"):
            names = found.group(1).split(",")
            options += names
            words = re.search(r":\{(.*?)\}", line)
            if words:
                choices[names[-1]] = words.group(1).split(",")
    return options, commands, choices


def every_command():
    """Returns the help of each command, by its path."""
    found = {(): help_of(())}
    for command in found[()][1]:
        found[(command,)] = help_of((command,))
        for below in found[(command,)][1]:
            found[(command, below)] = help_of((command, below))
    found[("launch", "train")] = found[("train",)]
    return found


def expect(said, wanted, line):
    missing = sorted(set(wanted) - set(said))
    assert not missing, f'"{line}" lacks {missing}; it has {sorted(said)}'


def check(complete):
    """`complete` maps lines to the list of candidates of each."""
    commands = every_command()
    assert len(commands) > 20 and "--out" in commands[("train",)][0]
    lines, wanted = [], []

    def ask(line, words):
        lines.append(line)
        wanted.append(words)

    for path, (options, subcommands, choices) in commands.items():
        start = " ".join(("hawser", *path))
        ask(f"{start} --", [option for option in options if option.startswith("--")])
        ask(f"{start} ", subcommands)
        for option, words in choices.items():
            ask(f"{start} {option} ", words)
    ask("hawser train --set /model/wid", ["/model/width="])
    ask("hawser explain /model/wid", ["/model/width"])
    ask("hawser init quick", ["quickstart"])
    ask("hawser train quick", ["quickstart"])
    ask("hawser train quickstart --out fol", ["folder"])
    ask("hawser eval fol", ["folder"])
    ask("hawser launch -n 4 train quickstart --data fi", ["file.txt"])
    ask("hawser tokenizer train file.txt --output fi", ["file.txt"])
    for line, words, said in zip(lines, wanted, complete(lines), strict=True):
        said = [word.rstrip("/") for word in said]
        expect(said, words, line)
        if line.endswith("--long "):
            assert not set(said) - {"cut", "drop"}, said
    assert complete(["hawser generate --max-tokens ", "hawser tr"]) == [[], ["train"]]


def by_bash(script, folder):
    def complete(lines):
        said = output("bash", "-c", BASH, "bash", script, input="".join(line + "\n" for line in lines), cwd=folder)
        return [line.split("\t") if line else [] for line in said.splitlines()]

    check(complete)
    assert complete(["hawser train --out=fol"]) == [["folder"]]


def by_fish(script, folder):
    def complete(lines):
        program = "source $argv[1]; for line in $argv[2..-1]; complete -C $line; echo ----; end"
        said = output("fish", "--no-config", "-c", program, script, *lines, cwd=folder)
        return [[row.split("\t")[0] for row in part.splitlines() if row] for part in said.split("----\n")[:-1]]

    check(complete)


def by_zsh(script, folder):
    """zsh completes only in a terminal, so this checks the syntax, and one line in a pseudo-terminal."""
    program = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; autoload -Uz compinit; compinit -u -d dump; source '$1'; echo rea''dy'
zpty -r -m shell line '*ready*'
zpty -w -n shell $'hawser launch -n 4 train quickstart --objective si\t x\C-a echo \C-e\n'
zpty -r -m shell line '*simpo*x*'
print -r -- $line
"""
    output("zsh", "-n", script)
    said = output("zsh", "-f", "-c", program, "zsh", script, cwd=folder, timeout=60)
    assert "simpo" in said, said


with tempfile.TemporaryDirectory() as place:
    folder = pathlib.Path(place)
    (folder / "folder").mkdir()
    (folder / "file.txt").write_text("text")
    for shell, run in {"bash": by_bash, "fish": by_fish, "zsh": by_zsh}.items():
        script = str(folder.with_name(folder.name + "." + shell))
        try:
            pathlib.Path(script).write_text(output(HAWSER, "completion", shell))
            if shutil.which(shell):
                run(script, folder)
                print(f"{shell}: completes")
            else:
                assert shell != "bash", "no bash"
                print(f"{shell} is not installed")
        finally:
            os.remove(script)
wrong = subprocess.run([HAWSER, "completion", "tcsh"], capture_output=True, text=True)
assert wrong.returncode == 2 and "bash" in wrong.stderr, wrong
