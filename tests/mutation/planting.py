"""Locates planted bugs in the code by function and statement, so that they follow code that moves.

A bug is a file of bugs/. Its first line describes the bug that it models. Each edit begins with a line `FILE:
FUNCTION` or, for code outside of functions, `FILE`. Lines with - are the statement to be replaced, and lines with +
are its replacement. The statement must occur exactly once in the function; line breaks and indentation are ignored.
"""
import dataclasses
import re


@dataclasses.dataclass
class Edit:
    file: str
    function: str
    removed: list
    added: list


class NotPlanted(Exception):
    """The statement does not occur, or occurs more than once."""


def edits_of(text):
    edits = []
    for line in text.split("\n")[1:]:
        header = re.fullmatch(r"(\w[\w./-]*\.\w+)(?:: (\S+))?", line)
        if header:
            edits.append(Edit(header[1], header[2] or "", [], []))
        elif edits and line[:1] == "-":
            edits[-1].removed.append(line[1:].strip())
        elif edits and line[:1] == "+":
            edits[-1].added.append(line[1:])
    return edits


KEYWORDS = r"(?!(?:return|else|case|new|throw|delete|co_return)\b)"


def ranges_of(code, function):
    """Returns (begin, end) of each definition of the function, or of all code if no function is named."""
    if not function:
        return [(0, len(code))]
    # A member function's definition begins in the first column; other functions are preceded by their return type.
    start = rf"()(?:{KEYWORDS}[\w:<>,*&\[\] ]*[ *&])?" if "::" in function else \
        rf"( *)(?! ){KEYWORDS}[\w:<>,*&\[\] ]*[\w>*&] *[*& ]"
    ranges = []
    for header in re.finditer(rf"^{start}{re.escape(function)}\(", code, re.M):
        close = re.compile(rf"^{header[1]}(?:[}}].*|\S.*;)$|^{header[1]}\S.*}}$", re.M)
        end = close.search(code, header.start())
        ranges.append((header.start(), end.end() if end else len(code)))
    return ranges


def pattern_of(statement):
    return re.compile(r"\s+".join(re.escape(word) for line in statement for word in line.split()))


def place_of(code, edit):
    """Returns (begin, end) of the statement. Raises NotPlanted."""
    pattern = pattern_of(edit.removed)
    found = {match.span() for begin, end in ranges_of(code, edit.function)
             for match in pattern.finditer(code, begin, end)}
    if len(found) != 1:
        where = f"{edit.file}: {edit.function}" if edit.function else edit.file
        raise NotPlanted(f"{where}: the statement stands there {len(found)} times, not once: {' '.join(edit.removed)}")
    return found.pop()


def planted(tree, text):
    """Returns {file: code with the bug} for a bug's text. `tree`: the folder of the code. Raises NotPlanted."""
    places = {}
    for edit in edits_of(text):
        path = tree / edit.file
        if not path.is_file():
            raise NotPlanted(f"{edit.file} is not there")
        code = places.setdefault(edit.file, (path.read_text(), []))
        code[1].append((*place_of(code[0], edit), "\n".join(edit.added).lstrip()))
    files = {}
    for file, (code, replaced) in places.items():
        for begin, end, added in sorted(replaced, reverse=True):
            code = code[:begin] + added + code[end:]
        files[file] = code
    return files
