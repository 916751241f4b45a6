import numpy as np

from services.scheduler.core.answer import Answer
from services.scheduler.core.columns import Columns
from services.scheduler.core.outbox import Outbox
from services.wire.execution import LogprobRows, StepResult
from services.wire.message import float32_column, int32_column
from services.wire.scheduling import Bill, FinishCause, Finished


def columns() -> Columns:
    made = Columns(4, 16)
    made.router[:] = [1, 2, 1, 2]
    made.handle[:] = [10, 11, 12, 13]
    return made


def answer(slots: list[int]) -> Answer:
    return Answer(np.array(slots, np.intp), int32_column([50 + slot for slot in slots]), [], [])


def finished(handle: int) -> Finished:
    return Finished(handle=handle, cause=FinishCause.LENGTH, bill=Bill())


def test_each_router_gets_its_own_tokens_in_one_message():
    """Handles in place of slots."""
    outbox = Outbox()
    outbox.put_tokens(5, answer([3, 0, 2]), columns())
    (first, tokens), (second, others) = outbox.take()
    assert (first, tokens.body.handles.tolist(), tokens.body.tokens.tolist()) == (1, [10, 12], [50, 52])
    assert (second, others.body.handles.tolist(), others.body.tokens.tolist()) == (2, [13], [53])
    assert tokens.body.step == 5


def test_messages_are_taken_once_and_in_order():
    """What came first goes first."""
    outbox = Outbox()
    for handle in range(3):
        outbox.put(1, finished(handle))
    assert [message.body.handle for _, message in outbox.take()] == [0, 1, 2]
    assert outbox.take() == []


def test_what_a_gone_router_was_not_given_is_dropped():
    """The others' messages stay."""
    outbox = Outbox()
    outbox.put(1, finished(1))
    outbox.put(2, finished(2))
    outbox.forget(1)
    assert [router for router, _ in outbox.take()] == [2]


def test_logprobs_go_to_the_router_of_their_sequence():
    """And only those of tokens that are delivered."""
    rows = LogprobRows(
        slots=int32_column([0, 1, 3]),
        positions=int32_column([5, 6, 7]),
        chosen=float32_column([-1, -2, -3]),
        ranks=int32_column([1, 1, 1]),
        top_counts=int32_column([0, 0, 0]),
    )
    outbox = Outbox()
    result = StepResult(plan=1, logprobs=rows)
    outbox.put_tokens_and_logprobs(5, answer([0, 1]), columns(), result, ())
    (_, first), (_, second) = outbox.take()
    assert first.body.logprobs.slots.tolist() == [10]
    assert second.body.logprobs.slots.tolist() == [11]
    assert first.body.prompt_logprobs is None
