"""The scripts: pure functions whose answers a test can foretell."""

import math

import pytest

from services.executor.simulated_card import END_OF_TEXT_ID, EOS_IDS, IM_END_ID, IM_START_ID
from services.executor.simulated_script import LogprobTable, answer_of, draw, is_stop, mix
from services.wire.execution import Sampling
from services.wire.message import int32_column


def _tokens(script, prompt, count, seed=0):
    answer, tokens = answer_of(script, prompt, seed), list(prompt)
    for _ in range(count):
        tokens.append(answer(len(tokens), tokens[-1]))
    return tokens[len(prompt) :]


def test_echo_repeats_the_last_user_turn_and_ends():
    """The last user turn comes back, byte for byte, and then the end token."""
    turn = [IM_START_ID, *b"user\n"]
    prompt = [*turn, *b"first", IM_END_ID, *b"\n", *turn, *b"hello", IM_END_ID, *b"\n", IM_START_ID, *b"assistant\n"]
    assert _tokens("echo", prompt, 6) == [*b"hello", IM_END_ID]


def test_echo_of_a_prompt_without_turns_is_all_its_text():
    """A raw prompt is answered by its bytes without special tokens."""
    assert _tokens("echo", [IM_START_ID, *b"abc", END_OF_TEXT_ID], 4) == [*b"abc", IM_END_ID]


def test_count_never_ends():
    """The counting script goes on for thousands of tokens."""
    text = bytes(_tokens("count", [1], 5000))
    numbers = [int(word) for word in text.split()[:-1]]
    assert numbers == list(range(1, len(numbers) + 1))


def test_random_depends_on_seed_and_on_nothing_hidden():
    """The same seed gives the same answer, another seed another one; ends come now and then."""
    assert _tokens("random", [5], 300, seed=1) == _tokens("random", [5], 300, seed=1)
    assert _tokens("random", [5], 300, seed=1) != _tokens("random", [5], 300, seed=2)
    assert 0 < sum(token in EOS_IDS for token in _tokens("random", [5], 3000)) < 150


def test_draw_keeps_to_what_the_request_allows():
    """Banned and not allowed tokens are replaced; when none is left nothing is drawn."""
    assert draw(7, 3, 0, Sampling()) == 7
    assert draw(7, 3, 0, Sampling(banned_ids=int32_column([7]))) != 7
    allowed = int32_column([1, 2, 3])
    assert draw(7, 3, 0, Sampling(allowed_ids=allowed)) in {1, 2, 3}
    assert draw(7, 3, 0, Sampling(allowed_ids=allowed, banned_ids=int32_column([1, 3]))) == 2
    assert draw(7, 3, 0, Sampling(allowed_ids=allowed, banned_ids=allowed)) is None


def test_draw_keeps_the_end_away_until_min_tokens():
    """Before min_tokens neither end nor stop tokens are drawn; from then on they are."""
    sampling = Sampling(min_tokens=2, stop_ids=int32_column([65]))
    for index in range(2):
        assert draw(IM_END_ID, 10 + index, index, sampling) not in {*EOS_IDS, 65}
        assert draw(65, 10 + index, index, sampling) not in {*EOS_IDS, 65}
    assert draw(IM_END_ID, 12, 2, sampling) == IM_END_ID


def test_stop_tokens():
    """End tokens stop unless ignored; stop ids always do."""
    assert is_stop(IM_END_ID, Sampling())
    assert not is_stop(IM_END_ID, Sampling(ignore_eos=True))
    assert is_stop(65, Sampling(ignore_eos=True, stop_ids=int32_column([65])))
    assert not is_stop(66, Sampling())


def test_logprob_rows_are_consistent():
    """The row of a token holds the token at its rank, with the chosen probability, best first."""
    table = LogprobTable()
    assert table.rows() is None
    table.add_drawn(slot=3, position=9, token=5, num_tops=2)
    table.add_prompt(slot=4, position=1, token=77, num_tops=5)
    rows = table.rows()
    assert rows.slots.tolist() == [3, 4]
    assert rows.positions.tolist() == [9, 1]
    assert rows.ranks[0] == 1
    assert rows.top_ids[0] == 5
    rank = int(rows.ranks[1])
    second = slice(2, 7)
    assert rows.top_ids[second][rank - 1] == 77
    assert rows.chosen[1] == pytest.approx(rows.top_logprobs[second][rank - 1])
    assert sorted(rows.top_logprobs[second], reverse=True) == rows.top_logprobs[second].tolist()
    assert sum(math.exp(value) for value in rows.top_logprobs[second]) < 1


def test_mix_spreads():
    """Nearby inputs give far outputs: no two of a thousand agree, and half of the bits are set."""
    values = [mix(1, n) for n in range(1000)]
    assert len(set(values)) == 1000
    assert 30 < sum(value.bit_count() for value in values) / 1000 < 34
