"""Streams of the typed client: what they yield, and how they are left."""

import asyncio
import threading

import pytest
from headway.client import AsyncClient, Client
from headway.v1 import inference_pb2 as v1

from tests.support.fake_inference import SEED, FakeInference, answer, sleep_forever, tokens_of
from tests.unit.client.asking import collect


def test_a_stream_yields_text_and_tokens_and_ends_with_the_finish():
    """Concatenated deltas are the answer; the last one says why it ended."""
    with FakeInference(answer("héllo")) as server, Client(server.address) as client:
        stream = client.generate("hi", max_tokens=5)
        deltas = list(stream)
    assert "".join(each.text for each in deltas) == stream.text == "héllo"
    assert [token for each in deltas for token in each.token_ids] == tokens_of("héllo")
    assert [each.finished is not None for each in deltas] == [False] * 5 + [True]
    assert (stream.started.seed, stream.started.model) == (SEED, "fake")


async def test_an_async_stream_yields_the_same():
    """The asyncio client streams as the other one does."""
    with FakeInference(answer("héllo")) as server:
        async with AsyncClient(server.address) as client:
            deltas = await collect(client.generate("hi"))
    assert "".join(each.text for each in deltas) == "héllo"
    assert deltas[-1].finished.reason == v1.FINISH_REASON_LENGTH


def test_leaving_a_stream_cancels_the_call():
    """The server hears of a client that stops reading."""
    with FakeInference(sleep_forever) as server, Client(server.address) as client:
        with client.generate("hi") as stream:
            assert next(stream).text == "a"
        assert server.cancelled.wait(10)
        assert list(stream) == []


def test_cancel_from_another_thread_ends_the_iteration():
    """`cancel()` wakes a reader that waits for the next token; it ends without an error."""
    with FakeInference(sleep_forever) as server, Client(server.address) as client:
        stream = client.generate("hi")
        timer = threading.Timer(0.2, stream.cancel)
        timer.start()
        assert [each.text for each in stream] == ["a"]
        assert server.cancelled.wait(10)
        timer.join()


async def test_cancelling_the_task_cancels_the_call():
    """A cancelled asyncio task cancels its call and stays cancelled."""
    with FakeInference(sleep_forever) as server:
        async with AsyncClient(server.address) as client:
            first = asyncio.Event()

            async def read():
                async for _ in client.generate("hi"):
                    first.set()

            task = asyncio.create_task(read())
            await first.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert await asyncio.to_thread(server.cancelled.wait, 10)


async def test_cancel_ends_an_async_iteration():
    """`cancel()` ends an asyncio stream without an error."""
    with FakeInference(sleep_forever) as server:
        async with AsyncClient(server.address) as client:
            stream = client.generate("hi")
            assert (await anext(stream)).text == "a"
            asyncio.get_running_loop().call_later(0.1, stream.cancel)
            assert await collect(stream) == []
