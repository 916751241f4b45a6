"""Retries: bounded without progress, renewed by it."""

import pytest

from services.router.retries import Retries
from services.wire.scheduling import Rejected, RejectReason


@pytest.mark.parametrize(
    ("ask", "times"),
    [
        (Retries.may_after_loss, 2),
        (lambda retries: retries.may_move(RejectReason.DRAINING), 4),
        (lambda retries: retries.may_move(RejectReason.EXECUTOR_UNAVAILABLE), 4),
        (lambda retries: retries.may_wait_for_id(RejectReason.DUPLICATE_ID), 20),
    ],
)
def test_each_way_of_trying_again_ends_and_begins_anew_with_the_next_token(ask, times):
    """So often without a token and no more; after one, as often again."""
    retries = Retries(resumed=True)
    for _ in range(2):
        assert [ask(retries) for _ in range(times + 2)] == [True] * times + [False] * 2
        retries.grew()


def test_a_refusal_that_another_scheduler_would_repeat_is_not_carried_around():
    """A full queue or a bad request is the client's to hear at once."""
    retries = Retries(resumed=True)
    for reason in set(RejectReason) - {RejectReason.DRAINING, RejectReason.EXECUTOR_UNAVAILABLE}:
        assert not retries.may_move(reason)


def test_only_an_id_that_an_earlier_stream_may_hold_is_waited_for():
    """A fresh request with a taken id is refused; one that was submitted or begun before waits until it is free."""
    assert not Retries(resumed=False).may_wait_for_id(RejectReason.DUPLICATE_ID)
    assert Retries(resumed=True).may_wait_for_id(RejectReason.DUPLICATE_ID)
    lost = Retries(resumed=False)
    lost.may_after_loss()
    assert lost.may_wait_for_id(RejectReason.DUPLICATE_ID)


def test_strikes_travel_and_never_fall():
    """The most that any scheduler has counted is what the next one hears."""
    retries = Retries(resumed=False)
    for attempt in (2, 1):
        retries.rejected(Rejected(handle=1, reason=RejectReason.DRAINING, attempt=attempt), had_tokens=False)
    assert (retries.attempt, retries.resubmitted) == (2, False)
    retries.rejected(Rejected(handle=1, reason=RejectReason.DRAINING), had_tokens=True)
    assert retries.resubmitted
