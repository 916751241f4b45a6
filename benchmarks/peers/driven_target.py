"""A driven target: a peer in a process of its own, which answers line by line, as a target of the load generator."""

import asyncio
import itertools
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Self

from benchmarks.peers.line import Ask, BadLine, Ready, Told, line_of, message_of
from services.cli.bench.result import Record
from services.cli.bench.target import Answer, Broken, Clock, Exchange, Facts, ids_of
from services.cli.bench.workload import Request

_MAX_LINE_BYTES = 16 << 20
_GONE = "the peer has ended"


class DrivenTarget:
    """Speaks the line protocol over the pipes of `process`, which it does not end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._ids = itertools.count()
        self._inboxes: dict[int, asyncio.Queue[Told | None]] = {}
        self._ready: asyncio.Future[Ready | None] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
        self._pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), self._process.stdout)
        self._reading = asyncio.create_task(self._read(reader))
        return self

    async def __aexit__(self, *_: object) -> None:
        self._reading.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
        self._pipe.close()

    async def facts(self) -> Facts:
        """Waits until the model is loaded. Raises `Broken` where the peer ends before."""
        ready = await asyncio.shield(self._ready)
        if ready is None:
            raise Broken(_GONE)
        return Facts("in its own process", "", "")

    async def send(self, request: Request, before: Sequence[Exchange], record: Record, clock: Clock) -> Answer:
        """Sends token ids, without waiting for the model to be loaded. Raises `Broken`."""
        ask = Ask(next(self._ids), ids_of(before, request), request.output_tokens)
        record.input_tokens = len(ask.prompt)
        inbox = self._inboxes[ask.id] = asyncio.Queue()
        answer = Answer()
        try:
            self._write(ask)
            while (told := await inbox.get()) is not None:
                if token_ids := told.tokens.get(ask.id):
                    record.message_s.append(clock.now_s() - (time.perf_counter() - told.at_s))
                    record.message_tokens.append(len(token_ids))
                    answer.token_ids += token_ids
                if ask.id in told.failed:
                    raise Broken(told.failed[ask.id])
                if ask.id in told.finished:
                    record.output_tokens = len(answer.token_ids)
                    return answer
        finally:
            del self._inboxes[ask.id]
        raise Broken(_GONE)

    def _write(self, ask: Ask) -> None:
        """A line is short beside a pipe and the peer reads in a thread of its own: it does not block for long."""
        assert self._process.stdin is not None
        if self._reading.done():
            raise Broken(_GONE)
        try:
            self._process.stdin.write(line_of(ask).encode())
            self._process.stdin.flush()
        except OSError:
            raise Broken(_GONE) from None

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Hands each line to those whom it concerns; at the end of the stream, or at nonsense, all hear that it is over."""
        try:
            while line := await reader.readline():
                message = message_of(line.decode())
                if isinstance(message, Ready):
                    self._ready.set_result(message)
                elif isinstance(message, Told):
                    for request_id in message.tokens.keys() | message.failed.keys() | set(message.finished):
                        if inbox := self._inboxes.get(request_id):  # else given up by the ruler
                            inbox.put_nowait(message)
        except (BadLine, ValueError):  # ValueError: a line longer than any of ours
            pass
        finally:
            if not self._ready.done():
                self._ready.set_result(None)
            for inbox in self._inboxes.values():
                inbox.put_nowait(None)
