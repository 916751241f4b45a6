"""The meter of one rendering."""

import time

import pytest

from services.router.text import template_meter
from services.router.text.errors import TemplateTooCostly
from services.router.text.template_meter import Allowance, Meter


def test_each_allowance_ends():
    """Operations, time, the size of a value and the sum of sizes are bounded apart."""
    meter = Meter(Allowance(operations=2))
    meter.spend()
    meter.spend()
    with pytest.raises(TemplateTooCostly, match="steps"):
        meter.spend()
    with pytest.raises(TemplateTooCostly, match="long"):
        Meter(Allowance(seconds=-1)).spend()
    with pytest.raises(TemplateTooCostly, match="too long a text"):
        Meter(Allowance(value_chars=5)).made("xxxxxx")
    meter = Meter(Allowance(built_chars=10))
    assert meter.made("xxxxxx") == "xxxxxx"
    with pytest.raises(TemplateTooCostly, match="too much text"):
        meter.made("xxxxxx")
    with pytest.raises(TemplateTooCostly, match="number"):
        meter.made(2**5000)


def test_a_size_counts_what_is_nested():
    """Characters, items, and how deep; keys too."""
    size = Meter(Allowance()).size({"ab": ["c", ("d", 1)], "e": "fg"})
    assert (size.chars, size.nodes, size.nesting) == (7, 8, 3)


def test_what_is_lazy_pays_item_by_item():
    """An endless iterator is as good as a loop."""
    meter = Meter(Allowance(operations=100))
    lazy = meter.made(iter(range(10**9)))
    with pytest.raises(TemplateTooCostly):
        list(lazy)


def test_nesting_is_bounded():
    """A list in a list, again and again, cannot exhaust the stack."""
    nested: list = []
    for _ in range(100):
        nested = [nested]
    with pytest.raises(TemplateTooCostly, match="deep"):
        Meter(Allowance()).size(nested)


def test_outside_of_a_rendering_there_is_no_meter():
    """So that nothing can be worked out unmetered."""
    with pytest.raises(LookupError):
        template_meter.current()
    meter = Meter(Allowance())
    token = template_meter.enter(meter)
    assert template_meter.current() is meter
    template_meter.leave(token)
    with pytest.raises(LookupError):
        template_meter.current()


def test_texts_that_are_new_in_a_list_are_paid_for():
    """What a split gives holds the whole text once more."""
    meter = Meter(Allowance(built_chars=500))
    meter.made(["x" * 400])
    with pytest.raises(TemplateTooCostly):
        meter.made(["x" * 400], with_items=True)


def test_what_is_known_is_not_walked_again():
    """Lists that share all that they hold double in size each time, and are refused at once."""
    meter = Meter(Allowance())

    def double(value, times):
        return double(meter.made([value, value]), times - 1) if times else value

    started = time.monotonic()
    with pytest.raises(TemplateTooCostly, match="too long a text"):
        double(["x"], 60)
    assert time.monotonic() - started < 1
