"""How much longer than its input a tokenizer.json can make a text, and the bound beyond which it is not served.

Rules that replace one text by another multiply: three that each put a thousand letters for one make a gigabyte of ten.
Nothing can interrupt the library while it does so, so that such a file is refused before it is loaded. What is looked at is
the normalizer and the decoder, with all that is nested in them: `Replace`, `Prepend` and what else carries text of its
own. Not covered: how long the library takes for a regular expression, and what a `Precompiled` character map makes.
"""

from collections.abc import Iterator
from typing import Any

from services.router.text.errors import UnusableModel

MAX_GROWTH = 64
"""Bytes for a byte; known tokenizers stay below 4 (a space becomes U+2581)."""
_MAX_RULES = 256
_MAX_TEXT_BYTES = 1024
_MAX_NESTING = 8


def check_growth(document: dict[str, Any]) -> None:
    """Raises `UnusableModel` for a tokenizer.json that may make texts much longer than they are."""
    for part in ("normalizer", "decoder"):
        rules = list(_rules(document.get(part)))
        if len(rules) > _MAX_RULES:
            raise UnusableModel(f"the tokenizer's {part} has more than {_MAX_RULES} rules")
        growth = 1.0
        for rule in rules:
            growth *= _growth(rule, part)
        if growth > MAX_GROWTH:
            raise UnusableModel(f"the tokenizer's {part} may make a text more than {MAX_GROWTH} times as long")


def _rules(rule: Any, nesting: int = 0) -> Iterator[dict[str, Any]]:
    """The rule and those that are nested in it, whatever its type calls their list."""
    if not isinstance(rule, dict):
        return
    if nesting > _MAX_NESTING:
        raise UnusableModel("the tokenizer's rules are nested too deep")
    yield rule
    for value in rule.values():
        for nested in value if isinstance(value, list) else [value]:
            yield from _rules(nested, nesting + 1)


def _growth(rule: dict[str, Any], part: str) -> float:
    """At most how many bytes it makes of one, what it adds once to each text aside."""
    texts = [len(text.encode(errors="replace")) for key, text in rule.items() if key != "type" and _is_text(key, text)]
    if max(texts, default=0) > _MAX_TEXT_BYTES:
        raise UnusableModel(f"a rule of the tokenizer's {part} holds a text of more than {_MAX_TEXT_BYTES} bytes")
    if rule.get("type") != "Replace":
        return 1.0
    content = len(str(rule.get("content")).encode(errors="replace"))
    pattern = rule.get("pattern")
    literal = pattern.get("String") if isinstance(pattern, dict) else pattern
    if isinstance(literal, str) and literal:
        return max(1.0, content / len(literal.encode(errors="replace")))
    return 1.0 + content  # a regular expression may match between any two characters


def _is_text(key: str, value: Any) -> bool:
    return isinstance(value, str) and key != "precompiled_charsmap"
