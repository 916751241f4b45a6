"""Seeds."""

from hypothesis import given
from hypothesis import strategies as st

from services.router.seeds import answer_seed, draw_seed

SEEDS = st.integers(0, 2**64 - 1)


@given(SEEDS)
def test_the_only_answer_draws_from_the_seed_itself(seed):
    """With one answer the seed in Started is the seed in use, so that a resume goes on."""
    assert answer_seed(seed, 0, 1) == seed


@given(SEEDS, st.integers(2, 16))
def test_several_answers_draw_from_different_seeds(seed, count):
    """Each of n answers has its own seed, within 64 bits, the same at every call."""
    seeds = [answer_seed(seed, index, count) for index in range(count)]
    assert len(set(seeds)) == count
    assert all(0 <= value < 2**64 for value in seeds)
    assert seeds == [answer_seed(seed, index, 16) for index in range(count)]


def test_the_hash_is_the_documented_one():
    """BLAKE2b-64 over seed and index, little-endian: a value computed apart pins it."""
    assert answer_seed(1, 2, 3) == 0x2E37B7E37DC9FE40


def test_drawn_seeds_differ_and_fit_a_signed_integer():
    """A drawn seed has 63 bits."""
    drawn = {draw_seed() for _ in range(100)}
    assert len(drawn) == 100
    assert max(drawn) < 2**63
