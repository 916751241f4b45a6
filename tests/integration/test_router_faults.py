"""Schedulers come and go, deadlines pass: no stream hangs, loses a token or gets one twice."""

import asyncio
import time

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from services.router.scheduler_link import SchedulerLink
from services.wire.scheduling import FinishCause, Load, RejectReason
from tests.support.fake_model import fake_card, ids_of, letters
from tests.support.fake_scheduler import FakeScheduler, until
from tests.support.router import bench, request, rest_of, router
from tests.support.scripts import alphabet, ends_after, rejects, says, silent

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


def accepted(made) -> list[int]:
    """How many tokens each live answer has."""
    return [answer.num_accepted for live in made.server.intake._live.values() for answer in live.answers]


async def test_a_lost_stream_is_submitted_again_with_what_was_accepted():
    """When the stream to the scheduler breaks, its sequences go on behind the next one with no token lost or doubled."""
    async with bench() as made:
        made.scheduler.script = ends_after(7)
        streams = [
            asyncio.ensure_future(made.client.generate(request(max_tokens=60, sampling={"seed": k}))) for k in range(5)
        ]
        await until(lambda: accepted(made) == [7] * 5)
        made.scheduler.script = alphabet()
        await made.scheduler.drop_sessions()
        for heard in await asyncio.gather(*streams):
            assert heard.text == letters(0, 60)
            assert heard.finished.usage.completion_tokens == 60
        again = made.scheduler.submits[5:]
        assert len(again) == 5
        assert {submit.accepted_count for submit in again} == {7}
        assert all(submit.resubmitted for submit in again)
        assert [submit.token_ids.tolist()[5:] for submit in again] == [ids_of(letters(0, 7))] * 5
        assert sorted(submit.seed for submit in again) == list(range(5))


async def test_a_killed_scheduler_is_waited_for():
    """A scheduler that dies and comes back is a pause; new requests wait for it as well."""
    async with bench() as made:
        made.scheduler.script = ends_after(3)
        before = asyncio.ensure_future(made.client.generate(request(max_tokens=6)))
        await until(lambda: accepted(made) == [3])
        await made.scheduler.stop()
        during = asyncio.ensure_future(made.client.generate(request(max_tokens=4)))
        await asyncio.sleep(0.3)
        made.scheduler.script = alphabet()
        await made.scheduler.start()
        assert (await before).text == letters(0, 6)
        assert (await during).text == letters(0, 4)


async def test_a_request_is_not_submitted_for_ever():
    """After two losses without progress the request ends UNAVAILABLE."""
    async with bench() as made:

        async def script(session, submit):
            session.reader.cancel()

        made.scheduler.script = script
        failure = await made.client.refused(request())
        assert (failure.code, failure.reason) == (UNAVAILABLE, "SCHEDULER_LOST")
        assert len(made.scheduler.submits) == 3


async def test_progress_renews_the_patience():
    """A sequence that grows between losses may be lost more often."""
    async with bench() as made:

        async def script(session, submit):
            await session.tokens(submit, ids_of(letters(submit.accepted_count, 1)))
            if submit.accepted_count == 7:
                await session.finish(submit, FinishCause.LENGTH)
            else:
                session.reader.cancel()

        made.scheduler.script = script
        assert (await made.client.generate(request(max_tokens=8))).text == letters(0, 8)


async def test_an_answer_whose_end_was_lost_ends():
    """When the stream breaks between the last token and the word that it was the last, the answer ends all the same."""
    async with bench() as made:

        async def script(session, submit):
            await session.tokens(submit, [*ids_of("bye"), 0])
            session.reader.cancel()

        made.scheduler.script = script
        heard = await made.client.generate(request())
        assert heard.text == "bye"
        assert heard.finished.reason == api.FINISH_REASON_STOP_TOKEN
        assert len(made.scheduler.submits) == 1


async def test_a_silent_scheduler_is_taken_for_lost():
    """A stream on which nothing is said for the limit is given up, and its sequences are submitted anew."""
    async with bench(scheduler_silence_s=0.5) as made:
        made.scheduler.script = ends_after(2)
        made.scheduler.load_every_s = None
        stream = asyncio.ensure_future(made.client.generate(request(max_tokens=5)))
        await until(lambda: accepted(made) == [2])
        made.scheduler.script = alphabet()
        assert (await stream).text == letters(0, 5)


async def test_without_a_scheduler_requests_end_after_the_grace():
    """No scheduler: UNAVAILABLE after the grace, DEADLINE_EXCEEDED where the deadline comes first."""
    async with FakeScheduler() as scheduler:
        pass
    async with router(scheduler, scheduler_grace_s=0.5) as made:
        began = time.monotonic()
        first = asyncio.ensure_future(made.client.refused(request()))
        second = asyncio.ensure_future(made.client.refused(request(deadline_s=0.1)))
        assert (await second).code == grpc.StatusCode.DEADLINE_EXCEEDED
        failure = await first
        assert (failure.code, failure.reason) == (UNAVAILABLE, "NO_SCHEDULER")
        assert time.monotonic() - began < 5


async def test_without_an_executor_requests_end_after_the_grace():
    """A scheduler that never gets an executor is no scheduler."""
    async with FakeScheduler() as scheduler:
        scheduler.executor_ready = False
        async with router(scheduler, scheduler_grace_s=0.3) as made:
            assert (await made.client.refused(request())).code == UNAVAILABLE
            scheduler.executor_ready = True
            await scheduler.say_hello()
            await until(made.server.is_ready)
            assert (await made.client.generate(request(max_tokens=2))).text == "ab"


async def test_a_stream_does_not_go_on_under_another_model():
    """Other weights behind the scheduler end a stream UNAVAILABLE with the reason; its tokens were delivered."""
    async with bench() as made:
        made.scheduler.script = ends_after(2)
        call = made.client.stub.Generate(request())
        text = ""
        while text != "ab":
            text += (await call.read()).delta.text
        made.scheduler.card = fake_card(fingerprint="beef")
        made.scheduler.script = alphabet()
        await made.scheduler.drop_sessions()
        rest, failure = await rest_of(call)
        assert text + rest == "ab"
        assert (failure.code, failure.reason) == (UNAVAILABLE, "MODEL_CHANGED")
        heard = await made.client.generate(request(max_tokens=3))
        assert (heard.text, heard.started.fingerprint) == ("abc", "beef")


async def test_other_numerics_alone_are_no_other_model():
    """A stream goes on when only the numerics behind it have changed."""
    async with bench() as made:
        made.scheduler.script = ends_after(2)
        stream = asyncio.ensure_future(made.client.generate(request(max_tokens=5)))
        await until(lambda: accepted(made) == [2])
        made.scheduler.card = fake_card(numerics_digest="d2")
        made.scheduler.script = alphabet()
        await made.scheduler.drop_sessions()
        assert (await stream).text == letters(0, 5)
        assert (await made.client.stub.GetModel(api.GetModelRequest())).numerics_digest == "d2"


async def test_a_deadline_ends_a_stream_whatever_the_scheduler_does():
    """A deadline passes at a silent scheduler: the request ends DEADLINE_EXCEEDED by the router and is cancelled."""
    async with bench() as made:
        made.scheduler.script = silent
        failure = await made.client.refused(request(deadline_s=0.3))
        assert failure.code == grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: made.scheduler.cancels)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await made.client.stub.Complete(request(), timeout=0.3)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        await until(lambda: len(made.scheduler.cancels) == 2)


async def test_a_resubmission_outlives_its_own_id():
    """A scheduler that still holds the id for the lost stream is asked again until it has noticed."""
    async with bench() as made:
        made.scheduler.script = ends_after(1)
        stream = asyncio.ensure_future(made.client.generate(request(max_tokens=3)))
        await until(lambda: accepted(made) == [1])

        async def script(session, submit):
            play = rejects(RejectReason.DUPLICATE_ID) if len(made.scheduler.submits) < 4 else alphabet()
            await play(session, submit)

        made.scheduler.script = script
        await made.scheduler.drop_sessions()
        assert (await stream).text == letters(0, 3)


async def test_a_draining_scheduler_is_left_for_another():
    """Of two schedulers the idle one is chosen, and a request that one turns away goes to the other."""
    async with FakeScheduler() as first, FakeScheduler() as second, router(first, second) as made:
        await until(lambda: all(link.can_compute and link.load for link in made.server.fleet.links))
        first.load = Load(running=50)
        await until(lambda: made.server.fleet.links[0].busyness == 50)
        assert (await made.client.generate(request(max_tokens=1))).text == "a"
        assert (len(first.submits), len(second.submits)) == (0, 1)
        second.script = rejects(RejectReason.DRAINING)
        assert (await made.client.generate(request(max_tokens=1))).text == "a"
        assert (len(first.submits), len(second.submits)) == (1, 2)


async def test_a_request_does_not_wander_for_ever():
    """When all schedulers turn a request away it ends UNAVAILABLE after a few."""
    async with FakeScheduler() as first, FakeScheduler() as second, router(first, second) as made:
        await until(lambda: all(link.can_compute and link.load for link in made.server.fleet.links))
        first.script = second.script = rejects(RejectReason.DRAINING)
        assert (await made.client.refused(request())).code == UNAVAILABLE
        assert len(first.submits) + len(second.submits) == 5


async def test_a_scheduler_that_breaks_its_contract_is_attached_again():
    """Tokens that are none end the sequence's text but not the router; a frame that is none ends the session."""
    async with bench() as made:

        async def script(session, submit):
            await session.send_bytes(b"\xff\xff")

        made.scheduler.script = script
        stream = asyncio.ensure_future(made.client.generate(request(max_tokens=2)))
        await until(lambda: made.scheduler.submits)
        made.scheduler.script = alphabet()
        assert (await stream).text == "ab"


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        (FinishCause.LENGTH, grpc.StatusCode.INTERNAL),
        (FinishCause.STOP_TOKEN, grpc.StatusCode.INTERNAL),
        (FinishCause.UNSPECIFIED, grpc.StatusCode.INTERNAL),
    ],
)
async def test_an_end_without_a_reason_is_never_ok(cause, code):
    """A finish that does not fit what was computed is a fault, not an empty success."""
    async with bench() as made:
        made.scheduler.script = says("", cause=FinishCause.LENGTH)

        async def script(session, submit):
            await session.finish(submit, cause)

        made.scheduler.script = script
        assert (await made.client.refused(request())).code == code


@pytest.mark.parametrize("helper", ["_write", "_watch"])
async def test_a_session_that_lost_a_helper_is_begun_anew(helper, monkeypatch):
    """A part of the link that ends, however it ends, ends the session: a router that cannot send does not seem ready."""
    broken = asyncio.Event()
    whole = getattr(SchedulerLink, helper)

    async def ends(self, *arguments):
        working = asyncio.ensure_future(whole(self, *arguments))
        if not broken.is_set():
            await broken.wait()
            working.cancel()
            raise ValueError("broken")
        await working

    monkeypatch.setattr(SchedulerLink, helper, ends)
    async with bench() as made:
        first = made.scheduler.sessions[0]
        broken.set()
        await until(lambda: made.scheduler.sessions and made.scheduler.sessions[0] is not first)
        await until(made.server.is_ready)
        assert (await made.client.generate(request(max_tokens=1), timeout=10)).text == "a"
