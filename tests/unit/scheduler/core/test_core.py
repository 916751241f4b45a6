"""The core: what becomes of requests, plan after plan, and of events that cannot be."""

import pytest

from services.scheduler.core.illegal_event import ExecutorBroke, IllegalEvent, RouterBroke
from services.wire.codec import encode
from services.wire.event_log import (
    ExecutorDown,
    LogEvent,
    RoutedCancel,
    RoutedStop,
    RoutedSubmit,
    SessionClosed,
    SessionOpened,
)
from services.wire.execution import GrammarReady, StepResult
from services.wire.message import int32_column
from services.wire.scheduling import Cancel, CancelByIdRequest, FinishCause, RejectReason, StepTokens, Stop
from tests.unit.scheduler.core.helpers import Bench, capacity, submit


def test_a_request_is_admitted_prefilled_and_decoded_to_its_length():
    """The first plan carries it whole, the second starts its slot, the third changes nothing."""
    bench = Bench()
    sent = bench.submit(prompt=20, max_tokens=4, seed=9)
    first = bench.step([0])
    (admitted,) = first.admitted
    assert (admitted.slot, admitted.token_limit, admitted.seed) == (0, 24, 9)
    assert admitted.token_ids.tolist() == sent.token_ids.tolist()
    assert (first.chunk_slots.tolist(), first.chunk_counts.tolist()) == ([0], [20])
    assert bench.step([0]).started.tolist() == [0]
    third = bench.step([0])
    assert len(encode(third)) < 20
    bench.step([0])
    *tokens, finished = bench.said()
    assert [message.tokens.tolist() for message in tokens] == [[50]] * 4
    assert (finished.cause, finished.bill.completion_tokens) == (FinishCause.LENGTH, 4)
    assert bench.plan() is None
    assert bench.core.is_idle


def test_a_plan_that_is_not_answered_fills_the_pipeline():
    """At depth 1 the next plan waits for the result; at depth 2 one more leaves, once steps are known to be short."""
    for depth in (1, 2):
        bench = Bench(pipeline_depth=depth)
        bench.submit(max_tokens=9)
        bench.step([0], step_us=1000)
        assert [bench.plan() is not None for _ in range(3)] == [True, depth == 2, False]


def test_a_stop_token_ends_a_sequence_with_its_token_delivered():
    """Tokens first, then the last word."""
    bench = Bench()
    bench.submit()
    bench.step([0], stopped=int32_column([0]))
    tokens, finished = bench.said()
    assert isinstance(tokens, StepTokens)
    assert finished.cause is FinishCause.STOP_TOKEN
    bench.submit(2)
    assert bench.plan().released.tolist() == [0]


def test_a_failed_slot_ends_with_an_error():
    """Its neighbour goes on."""
    bench = Bench()
    bench.submit(1)
    bench.submit(2)
    bench.step([1], failed=int32_column([0]))
    tokens, rejected = bench.said()
    assert tokens.handles.tolist() == [2]
    assert (rejected.handle, rejected.reason) == (1, RejectReason.FAILED)
    bench.step([1])


def test_a_stop_ends_at_the_count_that_the_client_has():
    """A result that is under way for it is dropped."""
    bench = Bench()
    bench.submit(max_tokens=30)
    for _ in range(3):
        bench.step([0])
    plan = bench.plan()
    bench.said()
    bench.tell(RoutedStop(router=1, stop=Stop(handle=1, accepted_count=2)))
    finished = bench.last_word()
    assert (finished.cause, finished.bill.completion_tokens) == (FinishCause.STOPPED, 2)
    bench.answer(plan, [0])
    assert bench.said() == []
    assert bench.core.overhead_us["ended"] == 1000


def test_a_cancel_ends_a_waiting_and_a_running_request():
    """Both get a last word; a second cancel crosses it and is ignored."""
    bench = Bench(max_slots=1)
    bench.submit(1)
    bench.submit(2)
    bench.step([0])
    bench.said()
    for handle in (1, 2, 1):
        bench.tell(RoutedCancel(router=1, cancel=Cancel(handle=handle)))
    assert [body.cause for body in bench.said()] == [FinishCause.CANCELLED] * 2
    bench.core.check_integrity()
    assert bench.core.is_idle


def test_a_request_id_cancels_all_its_answers():
    """Of its tenant only."""
    bench = Bench()
    for handle, tenant, answer in ((1, "a", 0), (2, "a", 1), (3, "b", 0)):
        bench.submit(handle, tenant=tenant, request_id="x", answer_index=answer)
    bench.tell(CancelByIdRequest(tenant="a", request_id="x"))
    assert [body.handle for body in bench.said()] == [1, 2]


def test_a_router_that_leaves_takes_its_requests_along_silently():
    """Nobody is told, blocks and slots are free, the other router's request goes on."""
    bench = Bench()
    bench.tell(SessionOpened(router=2))
    bench.submit(1)
    bench.submit(1, router=2, request_id="other")
    bench.step([0, 1])
    bench.tell(SessionClosed(router=1))
    assert {router for router, _ in bench.core.take_outputs()} == {2}
    bench.step([1])
    assert [router for router, _ in bench.core.take_outputs()] == [2]


@pytest.mark.parametrize(
    "event",
    [
        SessionOpened(router=1),
        SessionClosed(router=9),
        RoutedSubmit(router=9, submit=submit()),
        RoutedSubmit(router=1, submit=submit(1, request_id="another")),
        RoutedSubmit(router=1, submit=submit(2**31)),
        RoutedStop(router=9, stop=Stop(handle=1, accepted_count=0)),
        StepResult(plan=5),
        GrammarReady(slot=0),
    ],
)
def test_an_illegal_event_raises_and_changes_nothing(event: object):
    """The next plan is the one that would have been made anyway."""
    benches = [Bench(), Bench()]
    for bench in benches:
        bench.submit(1)
    with pytest.raises(IllegalEvent):
        benches[0].core.handle(LogEvent(at_us=77, body=event))
    benches[0].core.check_integrity()
    assert encode(benches[0].plan()) == encode(benches[1].plan())
    assert benches[0].said() == benches[1].said() == []


def test_the_executors_events_are_illegal_without_one():
    """There is no session that they could be of."""
    bench = Bench(up=False)
    for event in (ExecutorDown(), StepResult(plan=1)):
        with pytest.raises(ExecutorBroke):
            bench.tell(event)


def test_a_router_that_breaks_the_protocol_is_named():
    """The service closes that stream and no other."""
    with pytest.raises(RouterBroke) as caught:
        Bench().tell(SessionClosed(router=9))
    assert caught.value.router == 9


def test_a_duplicate_of_a_live_request_is_refused():
    """Until the first one has ended."""
    bench = Bench()
    bench.submit(1, request_id="x", max_tokens=1)
    bench.submit(2, request_id="x")
    assert bench.last_word().reason is RejectReason.DUPLICATE_ID
    bench.step([0])
    bench.said()
    bench.submit(3, request_id="x")
    assert bench.said() == []


def test_a_request_that_can_never_fit_is_refused_at_once():
    """Not queued for ever."""
    bench = Bench(up=capacity(num_blocks=4))
    bench.submit(prompt=[1] * 40, max_tokens=100)
    assert bench.last_word().reason is RejectReason.NEVER_FITS


def test_convicts_and_the_late_are_refused_at_the_door():
    """Three strikes, or no time left."""
    bench = Bench()
    bench.submit(1, attempt=3)
    word = bench.last_word()
    assert (word.reason, word.attempt) == (RejectReason.POISONOUS, 3)
    bench.submit(2, time_left_us=0)
    assert bench.last_word().reason is RejectReason.DEADLINE
