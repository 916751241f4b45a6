import pytest

from services.scheduler.core.core import Core
from services.scheduler.core.illegal_event import ExecutorBroke, IllegalEvent, RouterBroke
from services.scheduler.core.settings import CoreSettings
from services.wire.codec import encode
from services.wire.event_log import (
    ExecutorDown,
    ExecutorUp,
    LogEvent,
    RoutedCancel,
    RoutedStop,
    RoutedSubmit,
    SessionClosed,
    SessionOpened,
    Tick,
)
from services.wire.execution import GrammarReady, LogprobRows, Sampling, StepResult
from services.wire.message import float32_column, int32_column
from services.wire.scheduling import (
    Cancel,
    CancelByIdRequest,
    ExplainByIdRequest,
    FinishCause,
    Finished,
    Rejected,
    RejectReason,
    SchedulerHello,
    SequenceState,
    StepTokens,
    Stop,
)
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
    """At depth 1 the next plan waits for the result; at depth 2 one more leaves."""
    for depth in (1, 2):
        bench = Bench(pipeline_depth=depth)
        bench.submit(max_tokens=9)
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


# ---- prompt logprobs and resumed answers


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


# ---- executors that come and go


def test_a_lost_executors_sequences_go_on_with_all_their_tokens():
    """In the order of their admission, before those that waited."""
    bench = Bench(max_slots=2)
    for handle in (1, 2, 3):
        bench.submit(handle, prompt=5, max_tokens=9)
    bench.step([0, 1])
    bench.step([0, 1])
    bench.tell(ExecutorDown())
    assert bench.plan() is None
    bench.tell(ExecutorUp(session=2, capacity=capacity()))
    plan = bench.plan()
    assert plan.plan == 1
    assert [len(admitted.token_ids) for admitted in plan.admitted] == [7, 7]
    assert [admitted.token_ids[0] for admitted in plan.admitted] == [7, 14]
    assert plan.released.tolist() == []


def test_an_executor_that_comes_while_another_is_there_replaces_it():
    """As if that had been lost first."""
    bench = Bench()
    bench.submit(max_tokens=9)
    bench.step([0])
    bench.tell(ExecutorUp(session=2, capacity=capacity()))
    assert len(bench.plan().admitted[0].token_ids) == 21


def test_waiting_requests_end_when_the_grace_is_over():
    """Counted from the submit or from the loss, whichever is later."""
    bench = Bench(up=False, executor_grace_us=1000)
    bench.submit(1)
    assert bench.core.next_deadline_us() == 1000
    bench.at_us = 999
    bench.tell(Tick())
    assert bench.said() == []
    bench.at_us = 1000
    bench.tell(Tick())
    word = bench.last_word()
    assert (word.reason, word.retry_after_us > 0) == (RejectReason.EXECUTOR_UNAVAILABLE, True)
    bench.tell(ExecutorUp(session=1, capacity=capacity()))
    bench.submit(2, max_tokens=50)
    bench.step([0])
    bench.tell(ExecutorDown())
    bench.said()
    assert bench.core.next_deadline_us() == 2000 + 1000
    bench.at_us = 3000
    bench.tell(Tick())
    assert bench.last_word().reason is RejectReason.EXECUTOR_UNAVAILABLE


def test_an_executor_in_time_ends_the_grace():
    """Nothing happens at its old end."""
    bench = Bench(up=False, executor_grace_us=1000)
    bench.submit(1)
    bench.tell(ExecutorUp(session=1, capacity=capacity()))
    assert bench.core.next_deadline_us() is None
    bench.at_us = 5000
    bench.tell(Tick())
    assert not [body for body in bench.said() if isinstance(body, Rejected)]


def test_nothing_goes_on_under_another_model():
    """Token ids were made for the old one's tokenizer."""
    bench = Bench()
    bench.submit(max_tokens=9)
    bench.step([0])
    bench.tell(ExecutorDown())
    bench.tell(ExecutorUp(session=2, capacity=capacity(fingerprint="other")))
    assert bench.last_word().reason is RejectReason.MODEL_CHANGED


def test_never_fits_is_decided_again_for_a_smaller_pool():
    """And what still fits goes on."""
    bench = Bench()
    bench.submit(1, prompt=[1] * 40, max_tokens=100)
    bench.submit(2, prompt=[1] * 40, max_tokens=10)
    bench.tell(ExecutorUp(session=2, capacity=capacity(num_blocks=4)))
    word = bench.last_word()
    assert (word.handle, word.reason) == (1, RejectReason.NEVER_FITS)
    assert len(bench.plan().admitted) == 1


def test_routers_hear_of_a_new_executor():
    """Each gets the hello that a router which attaches now would get."""
    core = Core(CoreSettings())
    core.handle(LogEvent(at_us=0, body=SessionOpened(router=1)))
    assert core.hello() == SchedulerHello()
    core.handle(LogEvent(at_us=0, body=ExecutorUp(session=1, capacity=capacity(num_blocks=10))))
    ((router, message),) = core.take_outputs()
    assert (router, message.body) == (1, core.hello())
    assert (message.body.executor_ready, message.body.pool_tokens, message.body.max_request_tokens) == (True, 160, 161)


# ---- questions


def test_load_tells_progress():
    """Work that does not move for two seconds is no progress; no work is."""
    bench = Bench(max_slots=1)
    assert bench.core.load(10**9).making_progress
    bench.submit(1)
    bench.submit(2)
    bench.plan()
    load = bench.core.load(2_000_000)
    assert (load.running, load.waiting, load.making_progress) == (1, 1, True)
    assert not bench.core.load(2_000_001).making_progress


def test_a_request_after_a_long_idle_time_has_its_two_seconds():
    """Progress is counted from when there was work."""
    bench = Bench()
    bench.at_us = 10**9
    bench.submit(1)
    assert bench.core.load(10**9 + 1_000_000).making_progress


def test_explain_says_what_a_request_waits_for():
    """A slot, the ones before it, the executor; and how far one that runs is."""

    def views(handle: int):
        return bench.core.explain(ExplainByIdRequest(tenant="", request_id=f"r{handle}"), bench.at_us).sequences

    bench = Bench(max_slots=1)
    for handle in (1, 2, 3):
        bench.submit(handle, max_tokens=40)
    bench.step([0])
    ((running,), (second,), (third,)) = views(1), views(2), views(3)
    assert (running.state, running.computed_tokens, running.completion_tokens) == (SequenceState.DECODING, 20, 1)
    assert (running.blocks_held, running.blocks_needed) == (2, 2)
    assert (second.state, second.queue_position, second.waiting_for) == (SequenceState.WAITING, 0, "a_slot")
    assert (third.queue_position, third.waiting_for) == (1, "its_turn")
    assert second.estimated_start_us == 39 * 1000, "the one that runs has 39 tokens to go"
    assert third.estimated_start_us == -1, "when the second ends is not known before it runs"
    bench.core.preempt(1, 1)
    assert views(1)[0].state is SequenceState.PREEMPTED
    bench.tell(ExecutorDown())
    assert views(2)[0].waiting_for == "executor"
    assert views(9) == ()


def test_explain_says_that_a_static_batch_has_to_end_first():
    """Slots of the batch are empty, and whoever is next waits for one until the whole batch has ended."""
    bench = Bench(max_slots=4, batching="static")
    bench.submit(1, max_tokens=40)
    bench.step([0])
    bench.submit(2)
    question = ExplainByIdRequest(tenant="", request_id="r2")
    (view,) = bench.core.explain(question, bench.at_us).sequences
    assert (view.waiting_for, view.estimated_start_us) == ("a_slot", 39 * 1000)
    bench.tell(RoutedCancel(router=1, cancel=Cancel(handle=1)))
    (view,) = bench.core.explain(question, bench.at_us).sequences
    assert (view.waiting_for, view.estimated_start_us) == ("next_step", 0)


def test_explain_says_that_another_request_has_to_run_alone():
    """Whoever waits for a quarantine to end is told so."""
    bench = Bench()
    bench.submit(1, attempt=2)
    bench.submit(2)
    question = ExplainByIdRequest(tenant="", request_id="r2")
    assert bench.core.explain(question, bench.at_us).sequences[0].waiting_for == "quarantine"
    bench.step([0])  # the suspect has grown
    assert bench.core.explain(question, bench.at_us).sequences[0].waiting_for == "next_step"


def test_bills_and_overhead_are_the_executors_time():
    """Every microsecond of every step is on a bill, or has a cause."""
    bench = Bench()
    words = []
    for handle in range(1, 8):
        bench.submit(handle, prompt=10 + handle, max_tokens=3 + handle)
    for step in range(12):
        plan = bench.plan()
        if plan is None:
            break
        if step == 3:
            bench.tell(RoutedCancel(router=1, cancel=Cancel(handle=7)))
        live = [slot for slot in range(7) if step < 4 + slot and not (slot == 6 and step > 3)]
        bench.at_us += 1000
        bench.answer(plan, live, step_us=1003)
        words += [body for body in bench.said() if isinstance(body, Finished)]
    assert len(words) == 7
    billed = sum(word.bill.executor_us for word in words) + sum(bench.core.overhead_us.values())
    assert billed == pytest.approx(1003 * len(bench.plans), abs=10)
