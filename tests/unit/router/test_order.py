"""Orders: the same for every scheduler but for what the answer has by then."""

import asyncio

from services.router.retries import Retries
from tests.unit.router.orders import HELLO, order

NEVER = Retries(resumed=False)


def test_accepted_tokens_follow_the_prompt():
    """A resubmission has prompt and accepted tokens in one column and the hashes of all full blocks."""
    submit = order().submission(3, HELLO, [10, 11, 12], NEVER, prompt_logprobs=False)
    assert submit.token_ids.tolist() == [1, 2, 3, 4, 5, 10, 11, 12]
    assert (submit.handle, submit.prompt_length, submit.accepted_count) == (3, 5, 3)
    assert len(submit.block_hashes) == 2 * 16
    assert submit.time_left_us == -1


async def test_a_deadline_travels_as_what_is_left_of_it():
    """Stamps of two processes are never compared; a deadline that has passed is none left, not a negative time."""
    now = asyncio.get_running_loop().time()
    soon = order(deadline_at=now + 60).submission(1, HELLO, [], NEVER, prompt_logprobs=False)
    assert 55e6 < soon.time_left_us <= 60e6
    assert order(deadline_at=now - 1).submission(1, HELLO, [], NEVER, prompt_logprobs=False).time_left_us == 0


def test_prompt_logprobs_are_asked_for_once():
    """The first of several answers asks for them, and no resubmission that does not need them any more."""
    assert [order(index=index, n=2, prompt_logprobs=1).wants_prompt_logprobs for index in (0, 1)] == [True, False]
    made = order(prompt_logprobs=1)
    assert made.submission(1, HELLO, [], NEVER, prompt_logprobs=True).sampling.prompt_logprobs == 1
    assert made.submission(1, HELLO, [9], NEVER, prompt_logprobs=False).sampling.prompt_logprobs == -1
