from services.scheduler.core.lifecycle import FAILED, Lifecycle
from services.scheduler.core.progress import Progress
from services.scheduler.core.quota import Quotas
from services.scheduler.core.sequence import State
from services.scheduler.core.session import Session
from services.scheduler.core.settings import CoreSettings
from services.wire.scheduling import FinishCause
from tests.unit.scheduler.core.helpers import capacity, submit


def lifecycle(*handles: int, **fields) -> Lifecycle:
    made = Lifecycle(CoreSettings(), Progress(CoreSettings()))
    made.registry.open(1)
    made.capacity = capacity()
    made.session = Session(1, capacity(), CoreSettings(), made.quotas)
    for handle in handles:
        made.enter(made.make(1, submit(handle, **fields), 0), 0)
    return made


def run(made: Lifecycle, handle: int) -> None:
    sequence = made.registry.find(1, handle)
    made.queue.leave(sequence)
    made.session.occupy(sequence, [], 0)


def test_the_end_of_a_sequence_takes_it_out_of_every_collection():
    """Whether it waited or ran."""
    made = lifecycle(1, 2)
    run(made, 1)
    for handle in (1, 2):
        sequence = made.registry.find(1, handle)
        made.finish(sequence, FinishCause.LENGTH, 5)
        assert sequence.state is State.ENDED
    assert (len(made.registry), len(made.queue), len(made.session.running)) == (0, 0, 0)
    assert made.quotas._requests == Quotas()._requests
    assert [message.body.handle for _, message in made.outbox.take()] == [1, 2]


def test_times_are_those_of_the_first_admission_and_the_first_token():
    """Queued, then prefilled; durations only."""
    made = lifecycle(1)
    sequence = made.registry.find(1, 1)
    sequence.account.admitted_us, sequence.account.first_token_us = 30, 70
    made.finish(sequence, FinishCause.LENGTH, 100)
    ((_, message),) = made.outbox.take()
    assert (message.body.queued_us, message.body.prefill_us) == (30, 40)


def test_one_that_never_ran_was_queued_all_the_time():
    """Up to its end."""
    made = lifecycle(1)
    made.finish(made.registry.find(1, 1), FinishCause.CANCELLED, 100)
    ((_, message),) = made.outbox.take()
    assert (message.body.queued_us, message.body.prefill_us) == (100, 0)


def test_a_lost_executors_sequences_wait_in_the_order_of_their_admission():
    """Before those that had not run, and with a grace of their own."""
    made = lifecycle(1, 2, 3)
    run(made, 2)
    run(made, 1)
    made.lose_executor(50)
    assert [sequence.submit.handle for sequence in made.queue] == [2, 1, 3]
    assert made.session is None
    assert {sequence.grace_ends_us for sequence in made.queue} == {50 + 60_000_000}


def test_executor_time_of_a_rejected_request_is_on_no_bill():
    """It goes to the overhead."""
    made = lifecycle(1)
    run(made, 1)
    sequence = made.registry.find(1, 1)
    made.session.running.columns.executor_ns[sequence.slot] = 5000
    made.reject(sequence, FAILED, 10, keep_blocks=False)
    assert made.overhead.ns["unbilled"] == 5000


def test_a_wait_is_predicted_for_those_whose_first_token_is_promised():
    """Not for spare work, which waits for other things than a chat: what it has waited for teaches nothing."""
    made = lifecycle()
    made.queue_time.predict_us = lambda *_: 7000
    for handle, name in ((1, "chat"), (2, "batch"), (3, "")):
        made.enter(made.make(1, submit(handle, latency_class=name), 0), 0)
    assert [made.registry.find(1, handle).predicted_wait_us for handle in (1, 2, 3)] == [7000, 0, 0]


def test_the_end_of_one_that_ran_teaches_at_what_part_of_their_limits_answers_stop():
    """Not the end of one that waited, nor of spare work."""
    made, parts = lifecycle(1, 2, max_tokens=8), []
    made.queue_time.ended = lambda *part: parts.append(part)
    made.enter(made.make(1, submit(3, latency_class="batch"), 0), 0)
    for handle in (1, 3):
        run(made, handle)
        sequence = made.registry.find(1, handle)
        sequence.account.admitted_us = 0
        made.session.running.columns.known[sequence.slot] += 2
    for handle in (1, 2, 3):
        made.finish(made.registry.find(1, handle), FinishCause.STOP_TOKEN, 5)
    assert parts == [(2, 8)]
