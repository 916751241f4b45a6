import asyncio
import time
from dataclasses import replace

from services.cli.bench.lengths import Lengths
from services.cli.bench.load import Load
from services.cli.bench.metrics import e2e, ttft, ttft_sent
from services.cli.bench.target import Broken, Refused
from services.cli.bench.workload import Pace, Shape, generate
from tests.unit.cli.bench.targets import FakeTarget


def workload(num_requests=12, output="2", **fields):
    pace = fields.pop("pace", Pace(concurrency=4))
    lengths = Lengths.of(output)
    return generate(
        Shape(name="mine", num_requests=num_requests, input_lengths=Lengths.of("3"), output_lengths=lengths, pace=pace, **fields), 0
    )  # fmt: skip


async def run(work, target, timeout_s=10.0, tell=lambda _: None):
    return await Load(work, target, timeout_s=timeout_s, tell=tell).run()


async def test_a_closed_loop_keeps_its_concurrency_and_sends_each_request_once():
    """Never more, and so many while there are enough; records come in the workload's order."""
    target, told = FakeTarget(), []
    made = await run(workload(), target, tell=told.append)
    assert target.most_in_flight == 4
    assert sorted(index for index, _ in target.sent) == list(range(12))
    assert [record.index for record in made.records] == list(range(12))
    assert {record.status for record in made.records} == {"ok"}
    assert len(told) == 12
    assert made.duration_s == max(record.end_s for record in made.records)


async def test_a_record_says_when_everything_was():
    """Intended, sent, each message, the end: in this order."""
    made = await run(workload(), FakeTarget(0.001))
    for record in made.records:
        times = [record.intended_s, record.sent_s, *record.message_s, record.end_s]
        assert times == sorted(times)
        assert (record.asked_tokens, record.output_tokens, record.input_tokens) == (2, 2, 3)


async def test_people_think_between_an_answer_and_the_next_question():
    """The next turn is due a think time after the end of the one before, and holds what was said."""
    target = FakeTarget()
    made = await run(workload(6, pace=Pace(users=2, think_s=0.05), turns=3), target)
    for earlier, later in zip(made.records, made.records[1:], strict=False):
        if earlier.conversation == later.conversation:
            assert later.intended_s >= earlier.end_s + 0.05
    assert dict(target.sent)[2] == [0, 1]
    assert dict(target.sent)[5] == [3, 4]


async def test_people_come_in_one_by_one():
    """Two people who think 0.1 s begin 0.05 s apart: no lockstep."""
    made = await run(workload(2, pace=Pace(users=2, think_s=0.1)), FakeTarget())
    assert [record.intended_s for record in made.records] == [0.0, 0.05]


async def test_open_arrivals_do_not_wait_for_answers():
    """A first request that takes its time holds nobody up: all others are answered while it waits."""
    others_done = asyncio.Event()
    target = FakeTarget(hooks={0: others_done.wait})
    done = []

    def tell(record):
        done.append(record.index)
        if len(done) == 4:
            others_done.set()

    made = await run(workload(5, pace=Pace(rate_per_s=100.0)), target, tell=tell)
    assert done[-1] == 0
    assert made.records[-1].intended_s == 0.05
    assert {record.status for record in made.records} == {"ok"}


async def test_a_request_that_is_sent_late_waited_from_when_it_was_due():
    """The generator is held up for 0.2 s; those due meanwhile are late, and their latency says so."""

    async def hold_up():
        time.sleep(0.2)  # noqa: ASYNC251 - that is the fault

    made = await run(workload(5, pace=Pace(rate_per_s=100.0)), FakeTarget(hooks={0: hold_up}))
    last = made.records[-1]
    assert last.sent_s - last.intended_s > 0.1
    assert ttft(last)[0] - ttft_sent(last)[0] == last.sent_s - last.intended_s
    assert e2e(last)[0] >= ttft(last)[0]
    assert made.loop_lag_p99_s > 0.1


async def test_refusals_failures_and_timeouts_are_kept():
    """Each has its status and its reason; the others are answered."""

    async def refuse():
        raise Refused("too busy")

    async def fail():
        raise Broken("gone")

    async def hang():
        await asyncio.Event().wait()

    made = await run(workload(6), FakeTarget(hooks={1: refuse, 2: fail, 3: hang}), timeout_s=0.2)
    assert [record.status for record in made.records] == ["ok", "refused", "failed", "timeout", "ok", "ok"]
    assert [record.error for record in made.records][1:4] == ["too busy", "gone", "not ended within 0.2 s"]
    assert made.records[3].end_s >= 0.2


async def test_an_answer_without_a_token_is_a_failure():
    """Nothing came; it has no time to the first token that could be counted."""
    work = workload(2)
    silent = tuple(replace(each, output_tokens=0) for each in work.requests)
    made = await run(replace(work, requests=silent), FakeTarget())
    assert {(record.status, record.error) for record in made.records} == {("failed", "it ended without a token")}


async def test_a_failed_turn_is_missing_from_what_was_said():
    """The conversation goes on without it."""

    async def fail():
        raise Broken("gone")

    target = FakeTarget(hooks={1: fail})
    made = await run(workload(3, turns=3), target)
    assert dict(target.sent)[2] == [0]
    assert [record.status for record in made.records] == ["ok", "failed", "ok"]
