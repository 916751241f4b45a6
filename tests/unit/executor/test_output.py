"""What is drawn from a step's logits."""

import numpy as np
import pytest

from services.executor.output import StepOutput, prompt_positions
from services.executor.sampling import draw
from services.executor.slots import Slot
from services.executor.uniform import uniform
from services.executor.work import Work
from services.wire.execution import AdmittedSlot, Sampling
from services.wire.message import int32_column
from tests.support.numpy_draws import NumpyDraws


def slot(index=0, tokens=(5, 6, 7), prompt_length=2, token_limit=9, **parameters):
    admitted = AdmittedSlot(
        slot=index,
        token_ids=int32_column(tokens),
        prompt_length=prompt_length,
        token_limit=token_limit,
        blocks=int32_column(),
        seed=11,
        sampling=Sampling(**({"temperature": 0.0} | parameters)),
    )
    return Slot(admitted, (1,))


def rows(count, seed=0):
    return np.random.default_rng(seed).standard_normal((count, 30)).astype(np.float32)


def result(output):
    return output.result(3, update_us=1, forward_us=20, sample_us=300)


def test_each_slot_gets_the_token_that_its_own_row_draws():
    """Rows are drawn one by one, at the position that the token will have, and appended to the slot."""
    greedy, drawn = slot(0), slot(1, temperature=20.0)  # so hot that another uniform draws another token
    logits = rows(2)
    output = StepOutput()
    output.draw([greedy, drawn], logits, NumpyDraws())
    expected = [int(logits[0].argmax()), draw(logits[1], drawn.admitted.sampling, uniform(11, 3))]
    message = result(output)
    assert (message.slots.tolist(), message.counts.tolist(), message.tokens.tolist()) == ([0, 1], [1, 1], expected)
    assert [greedy.tokens[3], drawn.tokens[3]] == expected
    assert (message.plan, message.step_us, message.logprobs, message.failed.tolist()) == (3, 321, None, [])


def test_a_stop_token_is_told():
    """A drawn end token is in the tokens and its slot among the stopped."""
    logits = rows(1)
    logits[0, 1] = 99
    output = StepOutput()
    output.draw([slot(4)], logits, NumpyDraws())
    assert result(output).tokens.tolist() == [1]
    assert result(output).stopped.tolist() == [4]


@pytest.mark.parametrize("temperature", [0.0, 0.8])
@pytest.mark.parametrize("poison", [np.nan, np.inf, -np.inf])
def test_a_row_that_is_not_finite_fails_its_slot_alone(poison, temperature):
    """The neighbour's token is drawn; the failed slot draws nothing and computes nothing more."""
    good, bad = slot(0, temperature=temperature), slot(1, temperature=temperature)
    logits = rows(2)
    logits[1, 17] = poison
    output = StepOutput()
    output.draw([good, bad], logits, NumpyDraws())
    message = result(output)
    assert (message.slots.tolist(), message.failed.tolist()) == ([0], [1])
    assert bad.ended
    assert bad.length == 3


def test_masks_that_leave_no_token_fail_the_slot():
    """Allowed ids that are all banned have no answer."""
    impossible = slot(0, allowed_ids=int32_column([4]), banned_ids=int32_column([4]))
    output = StepOutput()
    logits = rows(1)
    output.draw([impossible], logits, NumpyDraws())
    assert result(output).failed.tolist() == [0]


def test_logprobs_are_of_the_models_own_distribution():
    """Penalties, bias and temperature change the token, not the logprobs reported."""
    logits = rows(1)
    plain, changed = StepOutput(), StepOutput()
    plain.draw([slot(logprobs=2)], logits, NumpyDraws())
    changed.draw([slot(logprobs=2, banned_ids=int32_column([int(logits[0].argmax())]))], logits, NumpyDraws())
    first, second = result(plain).logprobs, result(changed).logprobs
    assert first.top_ids.tolist() == second.top_ids.tolist()
    assert (first.ranks.tolist(), second.ranks.tolist()) == ([1], [2])
    assert second.chosen[0] == second.top_logprobs[1]
    assert second.positions.tolist() == [3]


def test_prompt_logprobs_stand_at_the_position_of_their_token():
    """Row i of the logits tells the logprob of prompt token position + i."""
    target = slot(2, tokens=(5, 6, 7, 8), prompt_length=4, prompt_logprobs=0)
    output = StepOutput()
    logits = rows(2)
    output.add_prompt_logprobs(target, 2, logits)
    message = result(output).prompt_logprobs
    assert message.positions.tolist() == [2, 3]
    expected = [logits[i, t] - np.log(np.exp(logits[i].astype(float)).sum()) for i, t in ((0, 7), (1, 8))]
    np.testing.assert_allclose(message.chosen, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("start", "count", "positions"), [(0, 1, [1]), (0, 2, [1, 2]), (2, 2, [3, 4]), (3, 3, [4]), (5, 1, []), (4, 1, [])]
)
def test_a_chunk_tells_the_logprobs_of_the_tokens_after_those_it_computes(start, count, positions):
    """Of a prompt of five tokens and one of output, only prompt positions count, the first of them never."""
    target = slot(tokens=range(2, 8), prompt_length=5, prompt_logprobs=1)
    assert list(prompt_positions(Work(target, start, count))) == positions
    assert list(prompt_positions(Work(slot(tokens=range(2, 8), prompt_length=5), start, count))) == []


def test_a_slot_fails_once():
    """A slot whose prompt rows and drawn row are both bad is named once."""
    target = slot(0, prompt_logprobs=0)
    logits = np.full((1, 30), np.nan, np.float32)
    output = StepOutput()
    output.add_prompt_logprobs(target, 1, logits)
    output.draw([target], logits, NumpyDraws())
    assert result(output).failed.tolist() == [0]


@pytest.mark.parametrize("penalty", [1e-45, 1e-38, 100.0])
def test_an_extreme_penalty_fails_nobody(penalty):
    """What the contract allows is drawn from, without a word from numpy."""
    logits = rows(1)
    output = StepOutput()
    output.draw([slot(0, repetition_penalty=penalty)], logits, NumpyDraws())
    assert (result(output).slots.tolist(), result(output).failed.tolist()) == ([0], [])


def test_logits_at_the_ends_of_float32_cause_no_warning():
    """Differences that float32 cannot hold are -inf in the message, as a logprob may be."""
    logits = rows(1)
    logits[0, :2] = np.finfo(np.float32).max, np.finfo(np.float32).min
    output = StepOutput()
    output.draw([slot(0, logprobs=30, temperature=1e-45)], logits, NumpyDraws())
    output.add_prompt_logprobs(slot(1, prompt_logprobs=30), 1, logits)
    assert result(output).slots.tolist() == [0]
