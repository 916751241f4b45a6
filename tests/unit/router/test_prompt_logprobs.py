"""Prompt logprobs: one for each token, told once."""

from services.router.logprob_rows import LogprobRow
from services.router.prompt_logprobs import PromptLogprobs
from services.wire.message import int32_column

PROMPT = int32_column([7, 8])


def row(position: int, logprob: float) -> LogprobRow:
    return LogprobRow(position, logprob, 1, [], [])


def test_rows_that_come_again_are_told_once_and_the_first_token_has_none():
    """A prompt computed twice, after a loss, has its newest rows; the first token, which nothing predicts, has only its id."""
    logprobs = PromptLogprobs(wanted=True)
    logprobs.add([row(1, -3.0)])
    logprobs.add([row(1, -2.0)])
    told = list(logprobs.take(PROMPT))
    assert [(each.token_id, each.logprob) for each in told] == [(7, 0.0), (8, -2.0)]
    logprobs.add([row(1, -1.0)])
    assert list(logprobs.take(PROMPT)) == []


def test_unwanted_rows_are_not_kept():
    """What a client has, or did not ask for, takes no memory."""
    logprobs = PromptLogprobs(wanted=False)
    logprobs.add([row(1, -3.0)])
    assert logprobs._rows == {}
    assert list(logprobs.take(PROMPT)) == []
