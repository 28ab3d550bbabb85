#!/usr/bin/env python3
"""Writes fixtures/python_patterns.jsonl: the results of Python's re.fullmatch for regular expressions and
module paths.

    make_pattern_cases.py FILE

Each line is {"pattern", "matches": [...], "others": [...]}, or {"pattern", "error": true} if Python refuses
the pattern. The first patterns are from PEFT's documentation and from published adapters; the other patterns
are random. The file leaves out look-around, back-references, flags and possessive repetitions, because Hawser
refuses them by name."""

import json
import random
import re
import sys
import warnings

PATHS = ["model.layers.0.self_attn.q_proj", "model.layers.12.mlp.down_proj", "transformer.h.1.attn.c_attn", "lm_head"]
KNOWN = [
    r".*\.(q|k|v|o)_proj", r".*decoder.*(SelfAttention|EncDecAttention).*(q|v)$", r"layers\.2\..*", "h.1.attn.c_attn",
    r"^model\.layers\.\d+\.self_attn\.(q_proj|v_proj)$", r"model\.layers\.([0-9]|1[0-5])\.mlp\..*_proj",
    r"(?:model\.)?layers\.(?P<index>\d+)\..+", r".*(self_attn|mlp).*", r".*\blayers\b.*", r"[^.]+(\.[^.]+){3,5}",
    r"^(?:.*?(?:language|text|model).*?(?:self_attn|attention|attn|mlp|feed_forward|ffn|dense).*?(?:\bq_proj\b|\bdown_proj\b).*?)$",
    r"model\.layers\.\d{1,2}\.[a-z_]+\.[a-z_]{3,}", "lm_head", r"lm_\w+", "", "()", "a{,}", "a{}", "a{1", "{1}", "a{2,1}", "[]a]",
    "[^]a]+", "[a-]+", "[a-\\d]", "[z-a]", "[a", "a]", "(a", "a)", "a**", "a*?", "a??", "a{2}?", "^*", "(?:^)*a", "a|*", "|a",
    "a||b", "\\", "\\q", "[\\q]", "\\.", "[\\.]", "[\\w.]+", "[^\\w]", "[\\W]", "[\\D]+", "\\Aa\\Z", "a\\Bb", "a\\b", "a$b", "$", "(a$)",
    "\\s", "a.c", "[[:alpha:]]+", "a{0}b", "(a{0,3}){0,3}", "(a*)*b", "(a|b|)*c", "((a?){3}){3}", "(?P<1>a)", "(?P<>a)", "(?P<x>a)b",
]  # fmt: skip
PIECES = list("abc.1_-") + ["\\.", "\\w", "\\d", "\\D", "\\b", "[ab]", "[^a.]", "[a-c1]", "^", "$"]
COUNTS = ["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}", "{1,}", "{0}", "{2}?"]
UNSUPPORTED = re.compile(r"\(\?(?!:|P<)|[*+?}]\+|\\[0-9xuUN]")
SOUP = list("ab.1") * 2 + list("()|*?{,}[]^$-\\w:P<>")


def expression(chance, depth):
    parts = []
    for _ in range(chance.randint(0, 4)):
        kind = chance.random()
        if kind < 0.25 and depth > 0:
            inner = expression(chance, depth - 1)
            part = chance.choice(["(", "(?:"]) + inner + ")"
        else:
            part = chance.choice(PIECES)
        if chance.random() < 0.35:
            part += chance.choice(COUNTS)
        parts.append(part)
    text = "".join(parts)
    return text + "|" + expression(chance, depth - 1) if depth > 0 and chance.random() < 0.2 else text


def compiled(pattern):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return None


def case(pattern, chance):
    expression = compiled(pattern)
    if expression is None:
        return {"pattern": pattern, "error": True}
    texts = {"", "a", "b", "ab", "ba", "a.b", "aa", "aab", "b.a1", "a\n", "a\nb", "[", "-"} | set(PATHS)
    texts |= {"".join(chance.choice("abc.1_-") for _ in range(chance.randint(1, 6))) for _ in range(8)}
    answers = {text: expression.fullmatch(text) is not None for text in sorted(texts)}
    return {
        "pattern": pattern,
        "matches": [text for text, found in answers.items() if found],
        "others": [text for text, found in answers.items() if not found],
    }


def main(path):
    chance = random.Random(20240711)
    patterns = list(KNOWN)
    while len(patterns) < 600:
        patterns.append(expression(chance, 3))
    while len(patterns) < 1000:
        patterns.append("".join(chance.choice(SOUP) for _ in range(chance.randint(1, 9))))
    unique = dict.fromkeys(pattern for pattern in patterns if not UNSUPPORTED.search(pattern))
    with open(path, "w") as file:
        for pattern in unique:
            file.write(json.dumps(case(pattern, chance)) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
