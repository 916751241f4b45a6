"""The whole stack's latency: 64 streams through real router and scheduler processes over a simulated executor."""

import asyncio
import time
from dataclasses import dataclass
from statistics import median

import uvloop
from headway.client import AsyncClient

from benchmarks.arrivals import Arrivals, mean_gap_s, num_steps
from benchmarks.report import Row
from benchmarks.served import Server, serving

STREAMS = 64
STEP_S = 0.005
WINDOW_S = 5.0
FIRST_TOKENS_LIMIT_S = 10.0
MAX_TOKENS = 4000  # more than the window can bring
SETTINGS = {
    "HEADWAY_EXECUTOR_SIMULATED_SCRIPT": "count",  # never ends by itself
    "HEADWAY_EXECUTOR_SIMULATED_NUM_BLOCKS": "32768",
    "HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": str(round(STEP_S * 1e6)),
    "HEADWAY_EXECUTOR_SIMULATED_STEP_PER_TOKEN_US": "0",
    "HEADWAY_EXECUTOR_SIMULATED_STEP_PER_CONTEXT_TOKEN_NS": "0",
    "HEADWAY_SCHEDULER_MAX_SLOTS": str(STREAMS),
}


@dataclass(frozen=True, slots=True)
class Window:
    """A time in which all streams decoded: its borders, and the CPU seconds that each process used in it."""

    begin_s: float
    end_s: float
    cpu_s: dict[str, float]

    @property
    def length_s(self) -> float:
        return self.end_s - self.begin_s


def run() -> list[Row]:
    """Starts a server, streams for five seconds, ends it."""
    with serving(SETTINGS) as server, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return rows(*runner.run(stream_all(server)))


async def stream_all(server: Server) -> tuple[list[Arrivals], Window]:
    """All streams at once until each has its first token, then for the window; they are cancelled at its end."""
    async with AsyncClient(server.address) as client, asyncio.TaskGroup() as group:
        streams = [Arrivals(time.perf_counter()) for _ in range(STREAMS)]
        begun = [asyncio.Event() for _ in streams]
        readers = [
            group.create_task(read(client, f"Stream {number}: count as far as you can", stream, begun[number]))
            for number, stream in enumerate(streams)
        ]
        async with asyncio.timeout(FIRST_TOKENS_LIMIT_S):
            for event in begun:
                await event.wait()
        begin_s, before = time.perf_counter(), used_cpu_s(server)
        await asyncio.sleep(WINDOW_S)
        end_s, after = time.perf_counter(), used_cpu_s(server)
        for reader in readers:
            reader.cancel()
    return streams, Window(begin_s, end_s, {name: after[name] - before[name] for name in before})


async def read(client: AsyncClient, prompt: str, stream: Arrivals, begun: asyncio.Event) -> None:
    """Reads one stream for as long as it lasts."""
    async with client.generate(prompt, max_tokens=MAX_TOKENS, ignore_eos=True) as deltas:
        async for delta in deltas:
            stream.note(len(delta.token_ids), time.perf_counter())
            if stream.at_s:
                begun.set()


def used_cpu_s(server: Server) -> dict[str, float]:
    return server.cpu_s() | {"this client": time.process_time()}


def rows(streams: list[Arrivals], window: Window) -> list[Row]:
    """TTFT over all streams; everything else within the window."""
    inside = [stream.within(window.begin_s, window.end_s) for stream in streams]
    num_tokens = sum(stream.num_tokens for stream in inside)
    num_messages = sum(len(stream.counts) for stream in inside)
    busy_s = num_steps(inside) * STEP_S
    return [
        Row("TTFT, median", median(stream.first_s for stream in streams) * 1000, "ms"),
        Row("TTFT, max", max(stream.first_s for stream in streams) * 1000, "ms"),
        Row("TBT, mean", mean_gap_s(inside) * 1000, "ms"),
        Row("TBT, max", max(stream.longest_gap_s for stream in inside) * 1000, "ms"),
        Row("tokens per second", num_tokens / window.length_s, "tokens/s"),
        Row("tokens per message", num_tokens / num_messages, "tokens"),
        Row("executor idle, estimated: all but 5 ms a step", 100 * (1 - busy_s / window.length_s), "%"),
        Row("router CPU per message", window.cpu_s["router"] / num_messages * 1e6, "us"),
        *(
            Row(f"CPU share of {name}", 100 * used_s / window.length_s, "% of a core")
            for name, used_s in window.cpu_s.items()
        ),
    ]
