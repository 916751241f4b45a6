"""Answers through the core: a prompt's logprobs are sent once, and one that is resumed goes on where it was."""

import pytest

from services.wire.execution import LogprobRows, Sampling
from services.wire.message import float32_column, int32_column
from services.wire.scheduling import FinishCause, StepTokens
from tests.unit.scheduler.core.helpers import Bench, capacity


def prompt_rows(slot: int, positions: range) -> LogprobRows:
    count = len(positions)
    return LogprobRows(
        slots=int32_column([slot] * count),
        positions=int32_column(list(positions)),
        chosen=float32_column([-1] * count),
        ranks=int32_column([1] * count),
        top_counts=int32_column([0] * count),
    )


def test_max_tokens_zero_computes_the_prompt_and_draws_nothing():
    """The limit is the prompt's length; it ends with its logprobs and no token."""
    bench = Bench()
    bench.submit(prompt=20, max_tokens=0, sampling=Sampling(prompt_logprobs=1))
    plan = bench.step([], prompt_logprobs=prompt_rows(0, range(1, 20)))
    assert plan.admitted[0].token_limit == 20
    tokens, finished = bench.said()
    assert tokens.prompt_logprobs.slots.tolist() == [1] * 19
    assert len(tokens.tokens) == 0
    assert finished.cause is FinishCause.LENGTH


def test_a_prompts_logprobs_are_not_sent_twice():
    """After a preemption in mid-prefill only the missing rows follow, although all are computed again."""
    bench = Bench(token_budget=10)
    bench.submit(prompt=20, max_tokens=1, sampling=Sampling(prompt_logprobs=1))
    bench.step([], prompt_logprobs=prompt_rows(0, range(1, 11)))
    assert bench.core.preempt(1, 1)
    assert bench.step([], prompt_logprobs=prompt_rows(0, range(1, 11))).admitted[0].computed_length == 0
    bench.step([0], prompt_logprobs=prompt_rows(0, range(11, 20)))
    rows = [body.prompt_logprobs for body in bench.said() if isinstance(body, StepTokens)]
    assert [row.positions.tolist() for row in rows if row] == [list(range(1, 11)), list(range(11, 20))]


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"accepted": [4, 9], "max_tokens": 8}, FinishCause.STOP_TOKEN),
        ({"accepted": [4, 5], "max_tokens": 2}, FinishCause.LENGTH),
        ({"accepted": [5] * 12, "max_tokens": -1}, FinishCause.LENGTH),
    ],
)
def test_a_resumed_answer_that_is_complete_ends_at_once(fields: dict, cause: FinishCause):
    """Its client has all tokens; only the last word was lost."""
    bench = Bench(up=capacity(eos_ids=int32_column([9])), default_max_tokens=12)
    bench.submit(resumed := 1, resubmitted=True, **fields)
    word = bench.last_word()
    assert (word.handle, word.cause) == (resumed, cause)
    assert bench.plan() is None


def test_a_resumed_answer_goes_on_behind_its_accepted_tokens():
    """They are known, not delivered again, and not billed as completion."""
    bench = Bench()
    bench.submit(prompt=20, accepted=[1, 2, 3], max_tokens=5, resubmitted=True)
    assert bench.step([0]).chunk_counts.tolist() == [23]
    bench.step([0])
    *tokens, finished = bench.said()
    assert sum(len(message.tokens) for message in tokens) == 2
    assert finished.bill.completion_tokens == 2
    assert finished.bill.computed_prompt_tokens == 0
    assert finished.bill.recomputed_tokens == 22
