import pytest

from services.scheduler.answers import Answer, Answers
from services.wire.message import int32_column
from services.wire.scheduling import Bill, FinishCause, Finished, StepTokens, ToRouter
from tests.unit.scheduler.core.helpers import submit

SUBMIT = submit(7)
FINISHED = Finished(handle=7, cause=FinishCause.LENGTH, bill=Bill())


def tokens(step, *ids):
    columns = {"handles": int32_column([7]), "counts": int32_column([len(ids)]), "tokens": int32_column(ids)}
    return StepTokens(step=step, **columns)


@pytest.fixture
def said():
    """What a router is told, and the answer that it is about."""
    answers = Answers({(1, 7): Answer(SUBMIT, 1)})

    def say(body, now_us=0):
        answers.take([(1, ToRouter(body=body))], now_us)
        return answers[1, 7]

    return say


def test_tokens_are_gathered_with_their_steps_and_times(said):
    """In the order in which they come; the longest wait between two is known."""
    said(tokens(3, 50), 10)
    said(tokens(4, 51, 52), 30)
    answer = said(FINISHED, 35)
    assert (answer.token_ids, answer.token_steps, answer.token_times_us) == ([50, 51, 52], [3, 4, 4], [10, 30, 30])
    assert (answer.max_gap_us, answer.ended_us, answer.finished) == (20, 35, FINISHED)


def test_a_second_last_word_is_noticed(said):
    """The core is held to one end for each request."""
    said(FINISHED)
    with pytest.raises(AssertionError, match="ended twice"):
        said(FINISHED)


def test_a_token_after_the_last_word_is_noticed(said):
    """Nothing comes behind it."""
    said(FINISHED)
    with pytest.raises(AssertionError, match="after the last word"):
        said(tokens(5, 50))
