"""Streams: an exchange with its calls made and waited for, once for threads and once for asyncio."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, Self

import grpc
import grpc.aio

from headway._client.answer import Delta
from headway._client.errors import HeadwayError, Unavailable
from headway._client.exchange import Exchange
from headway.v1 import inference_pb2 as v1

OpenCall = Callable[[v1.GenerateRequest, float | None], Any]  # (request, time left in seconds)


class _BaseStream:
    """What both streams share. Before the first message came, the answer's facts are empty."""

    def __init__(self, exchange: Exchange, open_call: OpenCall, cancelled: Any) -> None:
        self._exchange = exchange
        self._open_call = open_call
        self._cancelled = cancelled  # the Event of threading or of asyncio
        self._call: Any = None

    @property
    def text(self) -> str:
        """The first answer's text so far."""
        return self._exchange.texts.get(0, "")

    @property
    def started(self) -> v1.Started:
        """Request id, model, fingerprint and seed in use."""
        return self._exchange.started or v1.Started()

    def cancel(self) -> None:
        """Ends the stream; the server stops computing it."""
        self._cancelled.set()
        if (call := self._call) is not None:
            call.cancel()

    def _running_call(self) -> Any:
        if self._call is None:
            self._call = self._open_call(self._exchange.request(), self._exchange.attempts.time_left_s())
            if self._cancelled.is_set():  # by another thread, which saw no call to cancel
                self._call.cancel()
        return self._call

    def _pause_s(self, error: HeadwayError) -> float | None:
        """How long to wait before the next call; None where there is to be none. Raises `error` where that is one."""
        self._call = None
        return None if self._cancelled.is_set() else self._exchange.broken(error)


class Stream(_BaseStream):
    """An answer as it grows: iterate over its deltas. `cancel()`, from any thread, ends it; so does leaving `with`."""

    def __init__(self, exchange: Exchange, open_call: OpenCall) -> None:
        super().__init__(exchange, open_call, threading.Event())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Delta:
        while not self._cancelled.is_set():
            try:
                delta = self._exchange.take(next(self._running_call()))
            except StopIteration:
                self._exchange.ended()
                break
            except grpc.RpcError as error:
                pause_s = self._pause_s(self._exchange.attempts.error_of(error))
                if pause_s is None:
                    break
                self._cancelled.wait(pause_s)
                continue
            if delta is not None:
                return delta
        self.cancel()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()


class AsyncStream(_BaseStream):
    """An answer as it grows: iterate over its deltas. `cancel()` ends it; so does leaving `async with`."""

    def __init__(self, exchange: Exchange, open_call: OpenCall) -> None:
        super().__init__(exchange, open_call, asyncio.Event())

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Delta:
        while not self._cancelled.is_set():
            try:
                response = await self._read()
            except HeadwayError as error:
                pause_s = self._pause_s(error)
                if pause_s is None:
                    break
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._cancelled.wait(), pause_s)
                continue
            if response is grpc.aio.EOF:
                self._exchange.ended()
                break
            if (delta := self._exchange.take(response)) is not None:
                return delta
        self.cancel()
        raise StopAsyncIteration

    async def _read(self) -> Any:
        try:
            return await self._running_call().read()
        except grpc.RpcError as error:
            raise self._exchange.attempts.error_of(error) from None
        except asyncio.CancelledError:
            # grpc.aio raises this for the status CANCELLED as well, whoever it came from.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                self.cancel()
                raise
            raise Unavailable("the server cancelled the call", code=grpc.StatusCode.CANCELLED) from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.cancel()
