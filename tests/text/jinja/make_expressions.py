# Renders templates with Jinja2, set up as in Transformers, and prints the results for jinja_test.cc
# (expressions.json). Needs jinja2 3.1: python make_expressions.py > expressions.json
import json
import pathlib

import jinja2
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

VARIABLES = {
    "s": "Hello World", "t": "  padded\t\n", "u": "\u00e4\u00f6\u00fc \u00df \ufb01", "e": "", "n": 7, "f": 2.5, "z": 0, "b": True, "no": None,
    "l": [3, 1, 2], "ls": ["b", "A", "c"], "d": {"b": 1, "a": [1, {"x": None}]},
    "ms": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}],
    "ml": "a\nb\r\nc\u2028d\x0be", "q": "it's \"q\"", "w": "a  b c   d ", "nl": [[1, 2], [3, 4]],
    "big": 12345678901234567890,
}


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
environment.filters["tojson"] = tojson
environment.globals["raise_exception"] = raise_exception

cases = []
for template in json.loads((pathlib.Path(__file__).parent / "templates.json").read_text()):
    try:
        text = environment.from_string(template).render(**VARIABLES)
    except Exception:
        text = None
    cases.append({"template": template, "text": text})
print(json.dumps({"variables": VARIABLES, "cases": cases}, indent=0, ensure_ascii=True))
