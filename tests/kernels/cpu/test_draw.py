"""Compiled draws against services/executor/sampling.py, which defines them."""

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernels.cpu.library import load
from kernels.cpu.sampling import DRAW, draw
from services.executor import sampling
from services.wire.execution import Sampling
from tests.kernels.cpu.conftest import levels_here

NEAR = 1e-12
"""So near the border between two tokens either may be drawn."""
LAST_UNIFORM = 1 - 2**-53


def draws_of(samplings, uniforms):
    draws = np.empty(len(samplings), DRAW)
    for field in ("temperature", "top_p", "min_p", "top_k"):
        draws[field] = [getattr(one, field) for one in samplings]
    draws["uniform"] = uniforms
    return draws


def compiled(row, parameters, uniforms):
    """The tokens that `uniforms` draw from one row, in which -inf may stand."""
    rows = np.zeros(len(uniforms), np.int32)
    return draw(row[None], rows, draws_of([parameters] * len(uniforms), uniforms), are_masked=True).tolist()


def defined_ranks(row, parameters, uniform):
    """First and last place, in order of candidates, that the definition gives within rounding."""
    rank = np.empty(len(row), int)
    rank[np.argsort(-row, kind="stable")] = np.arange(len(row))
    shifts = (-NEAR, 0.0, NEAR)
    top_ps = (min(1.0, parameters.top_p * (1 + s)) for s in shifts) if parameters.top_p < 1 else (1.0,)
    min_ps = (parameters.min_p * (1 + s) for s in shifts) if parameters.min_p > 0 else (0.0,)
    uniforms = (min(max(uniform + s, 0.0), LAST_UNIFORM) for s in shifts)
    ranks = [
        rank[
            sampling.draw(
                row, Sampling(temperature=parameters.temperature, top_k=parameters.top_k, top_p=p, min_p=m), u
            )
        ]
        for p, m, u in itertools.product(top_ps, min_ps, uniforms)
    ]
    return rank, min(ranks), max(ranks)


def check(row, parameters, uniform):
    (token,) = compiled(row, parameters, [uniform])
    rank, first, last = defined_ranks(row, parameters, uniform)
    assert 0 <= token < len(row)
    assert first <= rank[token] <= last, (token, rank[token], first, last)


@st.composite
def logit_rows(choose):
    """Rows with ties, masks, peaks and plateaus, of any length around that of a register and of a block."""
    rng = np.random.default_rng(choose(st.integers(0, 2**32)))
    size = choose(st.sampled_from([1, 2, 7, 8, 9, 15, 17, 24, 25, 40, 511, 513, 1000, 3000]))
    row = (rng.standard_normal(size) * choose(st.sampled_from([0.0, 1e-6, 0.1, 1.0, 5.0, 40.0, 1e37]))).astype(
        np.float32
    )
    if choose(st.booleans()):
        row = np.round(row)
    if choose(st.booleans()):
        row[rng.integers(size, size=3)] += np.float32(choose(st.sampled_from([3.0, 20.0, 1000.0])))
    if choose(st.booleans()):
        row[rng.random(size) < choose(st.sampled_from([0.5, 0.999]))] = -np.inf
        row[rng.integers(size)] = 1.0
    return row


PARAMETERS = st.builds(
    Sampling,
    temperature=st.sampled_from([0.0, 1e-320, 1e-45, 1e-6, 0.1, 0.8, 1.0, 2.0, 100.0, 1e30]),
    top_k=st.sampled_from([0, 0, 1, 2, 24, 40, 999, 5000]),
    top_p=st.sampled_from([1.0, 1.0, 1e-45, 0.01, 0.5, 0.9, 0.95, 0.999999]),
    min_p=st.sampled_from([0.0, 0.0, 1e-45, 1e-30, 1e-9, 0.05, 0.5, 1.0]),
)
UNIFORMS = st.one_of(st.floats(0, 1, exclude_max=True), st.sampled_from([0.0, LAST_UNIFORM]))


@given(row=logit_rows(), parameters=PARAMETERS, uniform=UNIFORMS)
@example(row=np.float32([2, 2, 2, 2]), parameters=Sampling(top_p=0.5), uniform=0.5)
@example(row=np.float32([3e38, -3e38, 3e38]), parameters=Sampling(temperature=1e-45), uniform=0.6)
def test_every_level_draws_what_the_definition_draws(row, parameters, uniform):
    """Whatever the row and the parameters; where the uniform is at the border of two tokens, one of the two."""
    library = load()
    level = library.level
    try:
        for here in levels_here():
            library.use_level(here)
            check(row, parameters, uniform)
    finally:
        library.use_level(level)


def large_row(rng, kind, size):
    row = (rng.standard_normal(size) * {"flat": 0.1, "peaked": 3.0, "steep": 12.0, "masked": 3.0}[kind]).astype(
        np.float32
    )
    if kind == "peaked":
        row[rng.integers(size, size=40)] += np.linspace(0, 12, 40, dtype=np.float32)
    if kind == "masked":
        row[rng.random(size) < 0.99] = -np.inf
    return row


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("size", [32_000, 49_152, 50_001])
@pytest.mark.parametrize("kind", ["flat", "peaked", "steep", "masked"])
def test_rows_of_a_real_vocabulary_are_drawn_as_defined(kind, size):
    """Each filter alone, all together, and none, at temperatures that people use."""
    rng = np.random.default_rng(size)
    row = large_row(rng, kind, size)
    filters = [{}, {"top_p": 0.95}, {"top_k": 50}, {"min_p": 0.05}, {"top_p": 0.9, "top_k": 3000, "min_p": 1e-4}]
    for filtered in filters:
        check(row, Sampling(temperature=float(rng.choice([0.3, 0.8, 1.5])), **filtered), float(rng.random()))


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("temperature", [0.5, 0.8, 3.0])
def test_borders_between_tokens_stand_where_the_definition_has_them(temperature):
    """A uniform just below the border of two tokens draws the first, one just above it the second."""
    row = np.random.default_rng(5).uniform(-6, 6, 700).astype(np.float32)
    weights = np.exp((row.astype(np.float64) - float(row.max())) / temperature)
    order = np.argsort(-row, kind="stable")
    borders = np.cumsum(weights[order]) / weights.sum()
    borders = borders[borders < 1 - 1e-9]
    drawn = compiled(row, Sampling(temperature=temperature), [*(borders - NEAR), *(borders + NEAR)])
    assert drawn == [*order[: len(borders)], *order[1 : len(borders) + 1]]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("width", [1, 16, 511, 1025, 49_152])
def test_equal_logits_stand_by_id(width):
    """Of n equal logits the uniform u draws the one at floor(u * n)."""
    uniforms = (np.arange(200) + 0.5) / 200
    drawn = compiled(np.full(width, -3.25, np.float32), Sampling(), uniforms)
    assert drawn == np.floor(uniforms * width).astype(int).tolist()


@pytest.mark.usefixtures("library")
def test_top_p_is_a_share_of_all_that_top_k_keeps():
    """Of weights 1, 1, 1 and seven of 0.3 half is 2.55: three tokens, though min-p throws the seven out."""
    row = np.full(40, -30.0, np.float32)
    row[5:8], row[10:17] = 0.0, np.log(0.3)
    drawn = compiled(row, Sampling(top_k=10, top_p=0.5, min_p=0.5), (np.arange(300) + 0.5) / 300)
    assert [drawn.count(token) for token in (5, 6, 7)] == [100, 100, 100]


@pytest.mark.usefixtures("library")
def test_temperature_0_takes_the_first_of_the_best():
    """Masked rows too, whatever the filters say."""
    row = np.full(2000, -np.inf, np.float32)
    row[[700, 1500, 1501]] = 2.0, 7.0, 7.0
    assert compiled(row, Sampling(temperature=0.0, top_k=3, top_p=0.5, min_p=0.5), [0.99]) == [1500]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("best", [np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_a_masked_row_whose_largest_logit_is_not_finite_draws_nothing(best, temperature):
    """Its neighbours are drawn from."""
    logits = np.full((3, 600), -np.inf, np.float32)
    logits[:, 555] = 1.0, best, 1.0
    draws = draws_of([Sampling(temperature=temperature)] * 3, 0.5)
    assert draw(logits, np.arange(3, dtype=np.int32), draws, are_masked=True).tolist() == [555, -1, 555]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("width", [1, 15, 600, 49_152])
def test_a_row_that_is_not_finite_draws_nothing(poison, temperature, width):
    """Wherever in a row that nobody masked the value stands; its neighbours are drawn from, -0 and the largest float too."""
    for place in {0, width // 2, width - 1}:
        logits = np.full((3, width), -0.0, np.float32)
        logits[0, place], logits[1, place], logits[2, place] = np.finfo(np.float32).max, poison, 90.0
        draws = draws_of([Sampling(temperature=temperature)] * 3, 0.5)
        assert draw(logits, np.arange(3, dtype=np.int32), draws).tolist() == [place, -1, place]


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_token_depends_on_its_row_and_draw_alone(library, threads):
    """Alone or in a crowd, at any number of threads, in any order of rows, one row several times."""
    library.set_threads(threads)
    rng = np.random.default_rng(3)
    logits = (rng.standard_normal((9, 5000)) * 2).astype(np.float32)
    rows = rng.integers(0, 9, 40, dtype=np.int32)
    samplings = [Sampling(temperature=float(t), top_p=float(p)) for t, p in rng.uniform(0.2, 1, (40, 2))]
    draws = draws_of(samplings, rng.random(40))
    together = draw(logits, rows, draws).tolist()
    alone = [draw(logits, rows[i : i + 1], draws[i : i + 1]).item() for i in range(40)]
    assert together == alone
    assert draw(logits, rows[:0], draws[:0]).tolist() == []
