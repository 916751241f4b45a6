"""An answer as a state machine: it ends once, whatever comes after. Over real streams: the router's integration tests."""

import asyncio

import pytest
from headway.v1 import inference_pb2 as api

from services.router import answer as answer_module
from services.runtime.errors import internal
from services.wire.scheduling import Bill, FinishCause, Finished, Rejected, RejectReason
from tests.unit.router.orders import FakeFleet, FakeLink, answer


def finished(cause=FinishCause.LENGTH) -> Finished:
    return Finished(handle=1, cause=cause, bill=Bill())


@pytest.mark.parametrize("end", ["abort", "fail", "finish"])
async def test_an_answer_that_has_ended_hears_nothing_more(end):
    """Tokens, a finish, a rejection or a loss that were on their way when it ended change nothing and ask for nothing."""
    link = FakeLink()
    fleet = FakeFleet(link)
    made = answer(fleet)
    made.begin()
    made.take_tokens([97], ())
    if end == "finish":
        made.take_finished(finished())
    elif end == "abort":
        made.abort()
    else:
        made.fail(internal())
    assert link.cancelled == ([] if end == "finish" else [1])
    before = made.finished, made.refusal, made.num_accepted, fleet.placed
    made.take_tokens([98], ())
    made.take_finished(finished())
    made.take_rejected(Rejected(handle=1, reason=RejectReason.DRAINING))
    made.lost()
    made.abort()
    made.fail(internal())
    assert (made.finished, made.refusal, made.num_accepted, fleet.placed) == before
    assert made.pending.take().text == "a"


async def test_an_answer_whose_last_word_is_lost_ends_by_itself():
    """All tokens came and the scheduler died before it said so: nothing is computed again."""
    fleet = FakeFleet(FakeLink())
    made = answer(fleet, max_tokens=2)
    made.begin()
    made.take_tokens([97, 98], ())
    made.lost()
    assert made.finished.reason == api.FINISH_REASON_LENGTH
    stopped = answer(fleet)
    stopped.begin()
    stopped.take_tokens([97, 0], ())
    stopped.lost()
    assert (stopped.finished.reason, stopped.finished.stop_token_id) == (api.FINISH_REASON_STOP_TOKEN, 0)
    assert fleet.placed == 2


async def test_losses_count_from_the_last_token():
    """Each token earns two more losses; the third in a row is told, once."""
    changes = []
    fleet = FakeFleet(FakeLink())
    made = answer(fleet, changed=lambda: changes.append(made.refusal), max_tokens=9)
    made.begin()
    for token in (97, 98):
        made.lost()
        made.lost()
        assert made.refusal is None
        made.take_tokens([token], ())
    assert fleet.placed == 5
    for _ in range(3):
        made.lost()
    assert made.refusal.details[0].reason == "SCHEDULER_LOST"
    assert fleet.placed == 7
    assert [change is not None for change in changes] == [False, False, True]


async def test_an_answer_that_waits_for_its_id_can_be_ended(monkeypatch):
    """The pause before a retry is given up with the answer: nothing is placed for a client that is gone."""
    monkeypatch.setattr(answer_module, "_DUPLICATE_PAUSE_S", 0.02)
    fleet = FakeFleet(FakeLink())
    made = answer(fleet)
    made.begin()
    made.lost()
    made.take_rejected(Rejected(handle=2, reason=RejectReason.DUPLICATE_ID))
    assert made.waits_for_scheduler
    made.abort()
    await asyncio.sleep(0.1)
    assert fleet.placed == 2
    again = answer(fleet)
    again.begin()
    again.lost()
    again.take_rejected(Rejected(handle=4, reason=RejectReason.DUPLICATE_ID))
    await asyncio.sleep(0.1)
    assert fleet.placed == 5
