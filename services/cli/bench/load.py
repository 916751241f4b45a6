"""The load: sends the requests of a workload when they are due, and keeps a record of each."""

import asyncio
import gc
import time
from collections.abc import Callable, Sequence

from services.cli.bench.result import Record, Run
from services.cli.bench.stats import percentile
from services.cli.bench.target import Answer, Broken, Clock, Exchange, Refused, Target
from services.cli.bench.workload import Request, Workload

_LAG_PERIOD_S = 0.010
Tell = Callable[[Record], None]


class Load:
    """One run of one workload against one target."""

    def __init__(self, workload: Workload, target: Target, *, timeout_s: float, tell: Tell) -> None:
        self._workload = workload
        self._target = target
        self._timeout_s = timeout_s
        self._tell = tell
        self._records: list[Record] = []

    async def run(self) -> Run:
        """Sends all requests; returns when the last one has ended, well or not."""
        pace = self._workload.pace
        gc.collect()
        gc.freeze()  # a full collection of all that was imported and drawn would stop the load for some 50 ms
        self._clock = Clock()
        lags_s: list[float] = []
        cpu_began_s = time.process_time()
        watch = asyncio.create_task(_watch_loop(lags_s))
        try:
            if pace.rate_per_s > 0:
                await self._open()
            else:
                await self._closed(pace.users or pace.concurrency)
        finally:
            watch.cancel()
            gc.unfreeze()
        duration_s = max(record.end_s for record in self._records)
        cpu_s = time.process_time() - cpu_began_s
        return Run(
            repeat=self._workload.repeat,
            seed=self._workload.seed,
            duration_s=duration_s,
            records=sorted(self._records, key=lambda record: record.index),
            loop_lag_p99_s=percentile(lags_s, 99) if lags_s else 0.0,
            cpu_share=cpu_s / duration_s,
        )

    async def _open(self) -> None:
        """Each request at its time, whatever has become of those before it."""
        async with asyncio.TaskGroup() as group:
            for request in self._workload.requests:
                await self._sleep_until(request.arrival_s)
                group.create_task(self._send(request, (), request.arrival_s))

    async def _closed(self, num_people: int) -> None:
        """So many people, each taking the next conversation as soon as its own is over."""
        conversations = iter(self._workload.conversations)
        think_s = self._workload.pace.think_s

        async def person(number: int) -> None:
            due_s = think_s * number / num_people  # people do not all come in through the door at once
            for conversation in conversations:
                due_s = await self._converse(conversation, due_s)

        async with asyncio.TaskGroup() as group:
            for number in range(num_people):
                group.create_task(person(number))

    async def _converse(self, conversation: Sequence[Request], due_s: float) -> float:
        """Turn after turn, thinking after each answer; when the next is due. What fails is missing from what was said."""
        before: list[Exchange] = []
        for request in conversation:
            await self._sleep_until(due_s)
            answer = await self._send(request, before, due_s)
            if answer is not None:
                before.append(Exchange(request, answer))
            due_s = self._clock.now_s() + self._workload.pace.think_s
        return due_s

    async def _sleep_until(self, due_s: float) -> None:
        if (left_s := due_s - self._clock.now_s()) > 0:
            await asyncio.sleep(left_s)

    async def _send(self, request: Request, before: Sequence[Exchange], intended_s: float) -> Answer | None:
        record = Record(
            index=request.index,
            conversation=request.conversation,
            turn=request.turn,
            intended_s=intended_s,
            sent_s=self._clock.now_s(),
            input_tokens=len(request.prompt),
            asked_tokens=request.output_tokens,
        )
        self._records.append(record)
        answer = None
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await self._target.send(request, before, record, self._clock)
            if record.message_s:
                record.status = "ok"
            else:
                record.error = "it ended without a token"
        except Refused as error:
            record.status, record.error = "refused", str(error)
        except Broken as error:
            record.status, record.error = "failed", str(error)
        except TimeoutError:
            record.status, record.error = "timeout", f"not ended within {self._timeout_s:g} s"
        record.end_s = self._clock.now_s()
        if record.status != "ok":
            record.output_tokens = sum(record.message_tokens)
        self._tell(record)
        return answer


async def _watch_loop(lags_s: list[float]) -> None:
    """Notes how late this event loop wakes up, for as long as it runs."""
    loop = asyncio.get_running_loop()
    while True:
        due_s = loop.time() + _LAG_PERIOD_S
        await asyncio.sleep(_LAG_PERIOD_S)
        lags_s.append(loop.time() - due_s)
