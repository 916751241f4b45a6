"""Tokenizer files that would make gigabytes of a short text."""

import json
import time

import pytest

from services.router.text.errors import UnusableModel
from services.router.text.tokenizer import Tokenizer
from services.router.text.tokenizer_growth import check_growth
from tests.unit.router.text import models


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern, "content": content}


def normalizers(*rules):
    return {"normalizer": {"type": "Sequence", "normalizers": list(rules)}}


def decoders(*rules):
    return {"decoder": {"type": "Sequence", "decoders": list(rules)}}


@pytest.mark.parametrize(
    "made", [models.byte_level_json, models.spm_json, models.unigram_json, models.word_json]
)  # fmt: skip
def test_usual_tokenizers_pass(made):
    """Nothing is raised for the families that are served."""
    check_growth(json.loads(made()))


@pytest.mark.parametrize(
    "rules",
    [
        normalizers(*[replace({"String": "a"}, "a" * 1000)] * 3),
        normalizers(*[replace({"String": "a"}, "aa")] * 7),
        normalizers(*[normalizers(replace({"String": "a"}, "aa"))["normalizer"]] * 7),
        normalizers(*[replace({"Regex": ""}, "a" * 9)] * 2),
        normalizers(replace({"String": ""}, "a" * 64)),
        normalizers(*[{"type": "Prepend", "prepend": "a" * 1025}]),
        normalizers(*[{"type": "Lowercase"}] * 300),
        decoders(replace({"String": "a"}, "a" * 100_000)),
        decoders(*[replace({"String": "a"}, "aaaaaaaaa")] * 2),
        {"decoder": {"type": "WordPiece", "prefix": "#" * 2000, "cleanup": True}},
    ],
)
def test_rules_that_multiply_are_refused(rules):
    """Alone or together, nested or not, in the normalizer or in the decoder; before the library sees them."""
    document = json.loads(models.byte_level_json()) | rules
    started = time.monotonic()
    with pytest.raises(UnusableModel, match="tokenizer's"):
        Tokenizer(models.card(json.dumps(document)))
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("rules", [normalizers(replace({"String": " "}, "▁")), decoders(replace("▁", " ")), {}])
def test_rules_that_only_rename_pass(rules):
    """What grows little is served."""
    check_growth(rules)


def test_nesting_without_end_is_refused():
    """A file cannot exhaust the stack."""
    rule: dict = {}
    for _ in range(20):
        rule = {"normalizers": [rule]}
    with pytest.raises(UnusableModel, match="deep"):
        check_growth({"normalizer": rule})
