"""Sampling: against a full sort, against the formulas of each parameter, and at its edges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.executor import sampling
from services.executor.sampling import History, adjusted, always_adjusts, bars_stops, draw
from services.wire.execution import GREEDY, Sampling
from services.wire.message import float32_column, int32_column


def full_sort_draw(logits, parameters, uniform):
    """What `draw` promises, with every candidate sorted and no prefilter."""
    best = float(logits.max())
    weights = np.exp((logits.astype(np.float64) - best) / parameters.temperature)
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    ordered = weights[order]
    cumulated = np.cumsum(ordered)
    kept = len(order)
    mass = float(weights.sum())
    if 0 < parameters.top_k < kept:
        kept = parameters.top_k
        mass = cumulated[kept - 1]
    if parameters.top_p < 1:
        kept = min(kept, next((i + 1 for i, c in enumerate(cumulated) if c >= parameters.top_p * mass), kept))
    if parameters.min_p > 0:
        kept = min(kept, next((i for i, w in enumerate(ordered) if w < parameters.min_p), kept))
    if kept < len(order):
        mass = cumulated[kept - 1]
    for i in range(kept):
        if cumulated[i] > uniform * mass:
            return order[i]
    return order[max(i for i in range(kept) if ordered[i] > 0)]


@st.composite
def logit_rows(draw_from):
    """Rows with ties, masks, peaks and plateaus."""
    rng = np.random.default_rng(draw_from(st.integers(0, 2**32)))
    size = draw_from(st.sampled_from([1, 2, 5, 50, 1000]))
    row = (rng.standard_normal(size) * draw_from(st.sampled_from([0.0, 0.1, 1.0, 5.0, 40.0]))).astype(np.float32)
    if draw_from(st.booleans()):
        row = np.round(row)
    if draw_from(st.booleans()):
        row[rng.random(size) < 0.5] = -np.inf
        row[rng.integers(size)] = 1.0
    return row


@given(
    logits=logit_rows(),
    parameters=st.builds(
        Sampling,
        temperature=st.sampled_from([1e-6, 0.1, 0.8, 1.0, 2.0, 100.0]),
        top_k=st.sampled_from([0, 0, 1, 2, 40, 999, 5000]),
        top_p=st.sampled_from([1.0, 1.0, 0.01, 0.5, 0.9, 0.999999]),
        min_p=st.sampled_from([0.0, 0.0, 1e-9, 0.05, 1.0]),
    ),
    uniform=st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, 1 - 2**-53])),
)
def test_the_prefilter_never_changes_the_answer(logits, parameters, uniform):
    """Drawing from a prefix of the candidates equals drawing from all of them, sorted."""
    assert draw(logits, parameters, uniform) == full_sort_draw(logits, parameters, uniform)


def test_a_usual_draw_sorts_few_candidates(monkeypatch):
    """With a vocabulary of 49,152 a draw at temperature 0.8 looks at a small part of it in order."""
    seen = []
    original = sampling._draw_of
    monkeypatch.setattr(sampling, "_draw_of", lambda ids, *rest: seen.append(len(ids)) or original(ids, *rest))
    logits = (np.random.default_rng(0).standard_normal(49_152) * 3).astype(np.float32)
    for uniform in np.linspace(0, 0.99, 50):
        draw(logits, Sampling(temperature=0.8), float(uniform))
    assert np.mean(seen) < 49_152 / 20


def test_greedy_takes_the_best_and_of_equals_the_smallest_id():
    """Temperature 0 is argmax, ties to the smallest id."""
    assert draw(np.array([1, 3, 2, 3], np.float32), GREEDY, 0.0) == 1


def test_draws_follow_the_softmax_of_the_logits_over_temperature():
    """Over many uniforms each token comes up as often as its probability says."""
    logits = np.array([0.0, 1.0, 2.0, -1.0], np.float32)
    uniforms = (np.arange(100_000) + 0.5) / 100_000
    drawn = [draw(logits, Sampling(temperature=0.5), float(u)) for u in uniforms]
    frequencies = np.bincount(drawn, minlength=4) / len(drawn)
    expected = np.exp(logits / 0.5) / np.exp(logits / 0.5).sum()
    np.testing.assert_allclose(frequencies, expected, atol=1e-4)


@pytest.mark.parametrize(
    ("parameters", "possible"),
    [
        ({"top_k": 2}, {3, 2}),
        ({"top_k": 1}, {3}),
        ({"top_p": 0.6}, {3}),
        ({"top_p": 0.65}, {3, 2}),
        ({"min_p": 0.3}, {3, 2}),
        ({"top_k": 3, "min_p": 0.3}, {3, 2}),
        # top-p counts mass within top-k: of 0.73 and 0.27 the first is enough for 0.7.
        ({"top_k": 2, "top_p": 0.7}, {3}),
        ({}, {0, 1, 2, 3}),
    ],
)
def test_filters_leave_just_the_candidates_that_they_name(parameters, possible):
    """Of probabilities .03, .09, .24, .64 each filter keeps what its definition says."""
    logits = np.array([0.0, 1.0, 2.0, 3.0], np.float32)
    uniforms = np.linspace(0, 1, 2000, endpoint=False)
    assert {draw(logits, Sampling(**parameters), float(u)) for u in uniforms} == possible


def history(tokens, prompt_length, stop_ids=()):
    return History(tokens=np.array(tokens, np.int32), prompt_length=prompt_length, stop_ids=frozenset(stop_ids))


LOGITS = np.array([2.0, -2.0, 1.0, 0.5], np.float32)


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        # Seen: 0 twice (prompt, output), 1 (output), 2 (prompt).
        ({"repetition_penalty": 2.0}, [1.0, -4.0, 0.5, 0.5]),
        ({"presence_penalty": 0.5}, [1.5, -2.5, 1.0, 0.5]),
        ({"frequency_penalty": 0.5}, [1.0, -2.5, 1.0, 0.5]),
        ({"repetition_penalty": 2.0, "presence_penalty": 1.0}, [0.0, -5.0, 0.5, 0.5]),
        ({"bias_ids": int32_column([3]), "bias_values": float32_column([2.0])}, [2.0, -2.0, 1.0, 2.5]),
        ({"allowed_ids": int32_column([0, 2])}, [2.0, -np.inf, 1.0, -np.inf]),
        ({"banned_ids": int32_column([0])}, [-np.inf, -2.0, 1.0, 0.5]),
        ({"min_tokens": 4}, [2.0, -2.0, 1.0, -np.inf]),
        ({"min_tokens": 3}, [2.0, -2.0, 1.0, 0.5]),
    ],
)
def test_each_adjustment_does_what_its_formula_says(parameters, expected):
    """Bias adds, penalties follow their formulas over their tokens, masks leave -inf; three tokens are out."""
    wanted = Sampling(**parameters)
    assert always_adjusts(wanted) is (wanted.min_tokens == 0)
    result = adjusted(LOGITS, wanted, history([0, 2, 0, 0, 1], prompt_length=2, stop_ids=[3]))
    np.testing.assert_array_equal(result, np.array(expected, np.float32))


def test_bias_comes_before_the_repetition_penalty():
    """A bias that turns a logit negative changes how the repetition penalty treats it."""
    wanted = Sampling(repetition_penalty=2.0, bias_ids=int32_column([0]), bias_values=float32_column([-3.0]))
    assert adjusted(LOGITS, wanted, history([0], prompt_length=1))[0] == -2.0


def test_adjusting_leaves_the_models_logits_alone():
    """The row that logprobs are read from is not changed."""
    before = LOGITS.copy()
    adjusted(LOGITS, Sampling(repetition_penalty=2.0, banned_ids=int32_column([0])), history([0, 1], 1))
    np.testing.assert_array_equal(LOGITS, before)


def test_plain_parameters_adjust_nothing():
    """Temperature, filters and a least length alone need no copy of the logits."""
    assert not always_adjusts(Sampling(temperature=0.8, top_k=5, top_p=0.9, min_p=0.1, min_tokens=9))


def test_stops_are_barred_until_the_least_length_is_there():
    """And never where no token stops, as with ignore_eos."""
    wanted = Sampling(min_tokens=4)
    assert [bars_stops(wanted, count, frozenset({3})) for count in (0, 3, 4, 9)] == [True, True, False, False]
    assert not bars_stops(wanted, 0, frozenset())


REAL = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(
    logits=st.lists(REAL, min_size=4, max_size=4),
    wanted=st.builds(
        Sampling,
        temperature=st.sampled_from([0.0, 1e-45, 1.0, 100.0]),
        repetition_penalty=st.sampled_from([1e-45, 1e-38, 1e-20, 1.0, 100.0]),
        presence_penalty=st.sampled_from([-100.0, 0.0, 100.0]),
        frequency_penalty=st.sampled_from([-100.0, 0.0, 100.0]),
        bias_ids=st.just(int32_column([0, 3])),
        bias_values=st.sampled_from([float32_column([100.0, -100.0]), float32_column([0.0, 0.0])]),
        top_p=st.sampled_from([1e-45, 0.5, 1.0]),
        min_p=st.sampled_from([0.0, 1e-45, 1.0]),
    ),
    uniform=st.floats(0, 1, exclude_max=True),
)
def test_whatever_the_contract_allows_leaves_finite_logits_and_a_token(logits, wanted, uniform):
    """No parameter takes a logit out of float32, and numpy has nothing to warn of (warnings are errors here)."""
    result = adjusted(np.array(logits, np.float32), wanted, history([0, 1, 0, 1], prompt_length=1))
    assert np.isfinite(result).all()
    assert 0 <= draw(result, wanted, uniform) < 4


def test_a_vanishing_repetition_penalty_repeats():
    """A seen token of positive logit goes to the end of float32, the others stay."""
    result = adjusted(LOGITS, Sampling(repetition_penalty=1e-45), history([0, 1], prompt_length=1))
    np.testing.assert_allclose(result, [np.finfo(np.float32).max, 0.0, 1.0, 0.5], atol=1e-40)
