"""What a router keeps of its requests: while they are answered nothing of the message, and afterwards nothing at all."""

import asyncio
import contextlib
import gc

import grpc
from headway.v1 import inference_pb2 as api

from services.router.answer import Answer
from services.router.live_request import LiveRequest
from services.wire.scheduling import RejectReason
from tests.support.fake_scheduler import until
from tests.support.router import bench, request
from tests.support.scripts import alphabet, rejects, silent


async def test_nothing_of_a_request_is_kept_while_it_is_answered():
    """A live stream holds neither the bytes nor the message of its request."""
    async with bench() as made:
        made.scheduler.script = silent
        call = made.client.stub.Generate(request("x" * 500, request_id="only-here"))
        await until(lambda: made.scheduler.num_live == 1)
        frames = [task.get_coro() for task in asyncio.all_tasks()]
        held = [value for frame in frames for value in _held_by(frame)]
        assert not any(isinstance(value, api.GenerateRequest) for value in held)
        assert not any(isinstance(value, bytes) and b"only-here" in value for value in held)
        call.cancel()


def _held_by(coroutine) -> list:
    """The local variables of a coroutine of the router and of all that it awaits."""
    held = []
    while coroutine is not None:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is not None and "/services/router/" in frame.f_code.co_filename:
            held += frame.f_locals.values()
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)
    return held


def num_alive(kind):
    gc.collect()
    return sum(type(thing) is kind for thing in gc.get_objects())


async def answer_by_name(session, submit):
    """Requests that are called so are never answered, or rejected; others get their letters."""
    scripts = {"silent": silent, "reject": rejects(RejectReason.QUEUE_FULL)}
    await scripts.get(submit.request_id.partition("-")[0], alphabet())(session, submit)


async def send_one_of_each_kind(client, round_number):
    """One that finishes, is stopped, has several answers, is refused, rejected, expires, and is left by its client."""
    calls = [
        client.generate(request(max_tokens=5)),
        client.generate(request(max_tokens=9, stop={"strings": ["de"]})),
        client.stub.Complete(request(max_tokens=3, n=3)),
        client.generate(request(n=0)),
        client.generate(request(request_id=f"reject-{round_number}")),
        client.generate(request(request_id=f"silent-{round_number}", deadline_s=0.05)),
        asyncio.wait_for(client.generate(request(request_id=f"silent-l{round_number}")), 0.05),
    ]

    async def end(call):
        with contextlib.suppress(grpc.aio.AioRpcError, TimeoutError):
            await call

    await asyncio.gather(*map(end, calls))


async def test_nothing_is_left_after_hundreds_of_mixed_requests():
    """Finished, stopped, cancelled, refused, expired, aborted: no handle, waiter, timer or task remains of any."""
    async with bench() as made:
        made.scheduler.script = answer_by_name

        async def wave() -> int:
            for start in range(0, 30, 5):
                await asyncio.gather(*(send_one_of_each_kind(made.client, start + k) for k in range(5)))
            await until(lambda: made.server.intake.num_live == 0 and made.scheduler.num_live == 0)
            gc.collect()
            return len(asyncio.all_tasks())

        tasks = await wave()
        assert await wave() <= tasks + 2
        assert made.server.fleet.num_waiting == 0
        assert [link.num_live for link in made.server.fleet.links] == [0]
        assert not made.server.fleet.links[0]._outbox
        assert num_alive(Answer) <= 1  # the loop's last handle may hold one
        assert num_alive(LiveRequest) <= 1
