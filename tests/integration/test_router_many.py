"""GenerateMany: many requests and their cancellation over one call."""

import asyncio
import contextlib
from collections import defaultdict

import grpc
import pytest
from headway.v1 import inference_pb2 as api

from services.wire.scheduling import RejectReason
from tests.support.fake_model import ids_of, letters
from tests.support.fake_scheduler import until
from tests.support.router import Failure, Heard, bench, failure_of, failure_of_status, request
from tests.support.scripts import alphabet, rejects, silent


class Many:
    """A client's side of one call; `heard` and `failed` by request id."""

    def __init__(self, call) -> None:
        self.call = call
        self.heard: dict[str, Heard] = defaultdict(Heard)
        self.failed: dict[str, list[Failure]] = defaultdict(list)
        self.order: list[str] = []
        self.reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while (message := await self.call.read()) is not grpc.aio.EOF:
            self.order.append(message.request_id)
            if message.WhichOneof("kind") == "response":
                self.heard[message.request_id].take(message.response)
            else:
                self.failed[message.request_id].append(failure_of_status(message.error))

    async def send(self, request_id: str, text: str = "hello", **fields) -> None:
        await self.call.write(api.GenerateManyRequest(generate=request(text, request_id=request_id, **fields)))

    async def cancel(self, request_id: str) -> None:
        await self.call.write(api.GenerateManyRequest(cancel=api.Cancel(request_id=request_id)))

    async def end(self) -> None:
        await self.call.done_writing()
        await asyncio.wait_for(self.reading, 20)


@contextlib.asynccontextmanager
async def many(**settings):
    async with bench(**settings) as made:
        client = Many(made.client.stub.GenerateMany())
        yield made, client
        client.call.cancel()
        with contextlib.suppress(asyncio.CancelledError, grpc.aio.AioRpcError):
            await client.reading


async def test_answers_come_interleaved_and_tagged():
    """Many requests over one call are each answered whole, and none waits for another's end."""
    async with many() as (made, client):
        made.scheduler.script = alphabet(gap_s=0.005)
        for k in range(10):
            await client.send(f"r{k}", max_tokens=20 + k)
        await client.end()
        for k in range(10):
            heard = client.heard[f"r{k}"]
            assert heard.text == letters(0, 20 + k)
            assert heard.started.request_id == f"r{k}"
            assert heard.finished.usage.completion_tokens == 20 + k
        assert await client.call.code() == grpc.StatusCode.OK
        last_of_first = max(at for at, request_id in enumerate(client.order) if request_id == "r0")
        assert len(set(client.order[:last_of_first])) == 10
        assert made.server.intake.num_live == 0


async def test_a_failed_request_ends_in_its_own_message():
    """Bad fields, rejections, duplicates and deadlines end one request each; the call and its other requests go on."""
    async with many() as (made, client):
        made.scheduler.scripts = {
            "full": rejects(RejectReason.QUEUE_FULL, retry_after_us=250_000),
            "late": silent,
            "long": alphabet(gap_s=0.02),
        }
        await client.send("long", max_tokens=60)
        await client.send("bad", n=0)
        await client.send("full")
        await client.send("late", deadline_s=0.2)
        await client.send("long")
        await client.send("", "no id")
        await client.send("good", max_tokens=3)
        await client.end()
        failed = {request_id: (failures[0].code, failures[0].field) for request_id, failures in client.failed.items()}
        assert failed == {
            "bad": (grpc.StatusCode.INVALID_ARGUMENT, "n"),
            "full": (grpc.StatusCode.RESOURCE_EXHAUSTED, ""),
            "late": (grpc.StatusCode.DEADLINE_EXCEEDED, ""),
            "long": (grpc.StatusCode.ALREADY_EXISTS, ""),
            "": (grpc.StatusCode.INVALID_ARGUMENT, "request_id"),
        }
        assert client.failed["full"][0].retry_after_s == 0.25
        assert client.heard["long"].text == letters(0, 60)
        assert client.heard["good"].text == "abc"


async def test_cancel_ends_one_request():
    """A cancellation ends its request with what it has; one for an unknown id is nothing."""
    async with many() as (made, client):

        async def script(session, submit):
            await session.tokens(submit, ids_of("ab"))

        made.scheduler.script = script
        await client.send("one")
        await client.send("two")
        await until(lambda: client.heard["one"].text == client.heard["two"].text == "ab")
        await client.cancel("one")
        await client.cancel("nobody")
        await until(lambda: client.heard["one"].finished)
        assert client.heard["one"].finished.reason == api.FINISH_REASON_ABORTED
        assert made.server.intake.num_live == 1
        await until(lambda: len(made.scheduler.cancels) == 1)


async def test_a_client_that_goes_away_cancels_all():
    """When the call is cancelled, so is every request in it."""
    async with many() as (made, client):
        made.scheduler.script = silent
        for k in range(5):
            await client.send(f"r{k}")
        await until(lambda: made.scheduler.num_live == 5)
        client.call.cancel()
        await until(lambda: made.scheduler.num_live == 0 and made.server.intake.num_live == 0)
        assert len(made.scheduler.cancels) == 5


async def test_live_requests_of_a_call_are_bounded():
    """Past the bound a request is refused with a time to come back; when one has ended there is room again."""
    async with many(max_requests_per_call=2) as (made, client):
        made.scheduler.script = silent
        for k in range(3):
            await client.send(f"r{k}")
        await until(lambda: client.failed["r2"])
        assert client.failed["r2"][0].code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert client.failed["r2"][0].retry_after_s == 1.0
        await client.cancel("r0")
        await until(lambda: made.server.intake.num_live == 1)
        made.scheduler.script = alphabet()
        await client.send("r3", max_tokens=1)
        await until(lambda: client.heard["r3"].finished)


@pytest.mark.parametrize("data", [b"\xff\xff", b"", b"\x0a\x04\x0a\x02\xc3\x28"])
async def test_a_message_that_is_none_ends_the_call(data):
    """Bytes of which no request can be named end the call, with the words why."""
    async with bench() as made:
        call = made.client.channel.stream_stream("/headway.v1.Inference/GenerateMany")()
        await call.write(data)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call.read()
        assert failure_of(caught.value).code == grpc.StatusCode.INVALID_ARGUMENT


async def test_a_call_without_requests_ends():
    """A client that sends nothing and is done gets OK."""
    async with many() as (_, client):
        await client.end()
        assert await client.call.code() == grpc.StatusCode.OK


async def test_a_flood_of_nonsense_is_not_kept():
    """A client that sends refused requests and reads nothing is not read further than a bound."""
    async with bench() as made:
        options = [("grpc.http2.lookahead_bytes", 1024), ("grpc.http2.bdp_probe", 0)]
        async with grpc.aio.insecure_channel(made.server.address, options=options) as channel:
            call = channel.stream_stream("/headway.v1.Inference/GenerateMany")()
            bad = api.GenerateManyRequest(generate=request(n=0, request_id="x" * 100)).SerializeToString()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(3):
                    for _ in range(20_000):
                        await call.write(bad)
            assert made.server.intake.num_live <= 256
            assert (await made.client.generate(request(max_tokens=1))).text == "a"


async def test_a_huge_id_is_told_back_cut():
    """An invalid id of megabytes costs its sender a message, and the router 128 bytes of echo."""
    async with many() as (_, client):
        await client.send("x" * 1_000_000)
        await client.end()
        assert [len(request_id) for request_id in client.failed] == [128]


async def test_a_call_with_a_live_request_is_not_idle():
    """Only a call in which nothing is live is ended for silence."""
    async with many(idle_call_s=0.3) as (made, client):
        made.scheduler.script = alphabet(gap_s=0.1)
        await client.send("slow", max_tokens=8)
        await until(lambda: client.heard["slow"].finished)
        assert await asyncio.wait_for(client.call.code(), 5) == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert client.heard["slow"].text == letters(0, 8)
