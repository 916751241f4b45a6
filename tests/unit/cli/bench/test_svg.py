import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli.bench.svg import Bar, Line, Mark, Scale, chart, timeline


@given(st.floats(1e-9, 1e12))
def test_ticks_are_round_and_few(most):
    """From zero up to the end, three to eight of them."""
    ticks = Scale(most, 0, 100).ticks()
    assert 3 <= len(ticks) <= 8
    assert ticks[0] == 0
    assert ticks[-1] <= most * (1 + 1e-6)
    assert f"{ticks[1]:e}"[0] in "125"


def test_a_line_goes_through_its_points():
    """0 is at the left and at the bottom, the largest at the right."""
    drawn = chart("t", "x", "y", [Line("l", [(0.0, 0.0), (10.0, 5.0)])])
    assert 'points="64.0,256.0 624.0,' in drawn
    assert drawn.count("<circle") == 2


def test_a_mark_is_drawn_where_it_is():
    """Half way of the axis, with its word."""
    drawn = chart("t", "x", "y", [Line("l", [(10.0, 1.0)])], [Mark(5.0, "knee")])
    assert '<line class="mark" x1="344.0"' in drawn
    assert ">knee</text>" in drawn


def test_words_are_escaped():
    """A name is text."""
    assert "<b>" not in chart("<b>", "<b>", "<b>", [Line("<b>", [(1.0, 1.0)])])


@pytest.mark.parametrize("lines", [[], [Line("l", [])]])
def test_nothing_is_said_to_be_nothing(lines):
    """A sentence in the picture's place."""
    assert chart("t", "x", "y", lines) == "<p>t: nothing to draw.</p>"
    assert timeline("t", []) == "<p>t: nothing to draw.</p>"


def test_zeros_are_a_flat_line():
    """No division by the height that they do not have."""
    assert 'points="64.0,256.0"' in chart("t", "x", "y", [Line("l", [(0.0, 0.0)])])


def test_a_request_waits_then_answers():
    """Ten seconds wide: waiting from 0 to 5, answering to 10; one without a token only waits, in the colour of failures."""
    drawn = timeline("t", [Bar(0.0, 5.0, 10.0, failed=False), Bar(0.0, None, 10.0, failed=True)])
    assert '<rect class="wait" x="64.0" y="28.0" width="280.0"' in drawn
    assert '<rect class="answer" x="344.0" y="28.0" width="280.0"' in drawn
    assert '<rect class="failed" x="64.0" y="36.0" width="560.0"' in drawn
