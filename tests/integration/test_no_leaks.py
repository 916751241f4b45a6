"""Nothing leaks: after thousands of requests that ended in every possible way, nothing is held and memory is flat."""

import asyncio
import os
import random
import tempfile
from collections import Counter

import pytest
from headway.client import AsyncClient, HeadwayError, RetryPolicy

from tests.support.gauges import footprint, load_of, scheduler_socket
from tests.support.served import serve

SETTINGS = {
    "HEADWAY_EXECUTOR_SIMULATED_SCRIPT": "random",
    "HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": "500",
    "HEADWAY_EXECUTOR_SIMULATED_NUM_BLOCKS": "300",  # crowded: sequences are preempted
    "HEADWAY_SCHEDULER_MAX_SLOTS": "16",
    "HEADWAY_SCHEDULER_MAX_WAITING_REQUESTS": "20",  # some find the queue full
    # Freed memory goes back at once: what is resident is what is held, and not what an allocator keeps of a peak.
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_TRIM_THRESHOLD_": "0",
    "MALLOC_TOP_PAD_": "0",
}
CONCURRENCY = 64
PATIENCE_S = 60.0
MAX_GROWTH_KIB = 1024  # or 1 %, of each process over the last round
NO_RETRY = RetryPolicy(max_attempts=1)  # a refusal is counted, not waited out


@pytest.fixture
def runtime_dir(monkeypatch):
    """A short, private XDG_RUNTIME_DIR."""
    with tempfile.TemporaryDirectory(prefix="hwl-") as folder:
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        yield folder


class Mix:
    """Requests that end in every way, drawn with a seed."""

    KINDS = (
        "length",
        "eos",
        "stop_string",
        "stop_token",
        "cancel_early",
        "cancel_midway",
        "abort",
        "expired",
        "refused",
        "n",
    )

    def __init__(self, client, seed):
        self.client = client
        self.random = random.Random(seed)
        self.ended = Counter()

    async def run(self, count):
        gate = asyncio.Semaphore(CONCURRENCY)
        async with asyncio.TaskGroup() as group:
            for number in range(count):
                await gate.acquire()
                task = group.create_task(self._one(self.random.choice(self.KINDS), number))
                task.add_done_callback(lambda _: gate.release())
        return self.ended

    async def _one(self, kind, number):
        prompt = "x" * self.random.randint(1, 300)
        params = {"max_tokens": self.random.randint(5, 60), "seed": number, "ignore_eos": kind not in {"eos", "n"}}
        timeout_s = PATIENCE_S
        match kind:
            case "stop_string":
                params["stop"] = [chr(letter) for letter in range(97, 105)]
            case "stop_token":
                params["stop_token_ids"] = list(range(97, 110))
            case "expired":
                timeout_s = self.random.uniform(0.001, 0.1)
            case "refused":
                params |= self.random.choice(
                    [{"temperature": -1}, {"max_tokens": 10**6}, {"top_p": 0}, {"model": "none"}]
                )
            case "n":
                params["n"] = 3
            case "abort":
                params |= {"max_tokens": 2000, "request_id": f"abort-{number}"}
            case "cancel_midway":
                params["max_tokens"] = 2000
        try:
            self.ended[await self._stream(kind, prompt, timeout_s, params)] += 1
        except HeadwayError as error:
            self.ended[type(error).__name__] += 1

    async def _stream(self, kind, prompt, timeout_s, params):
        leave_after = self.random.randint(1, 8)
        stream = self.client.generate(prompt, timeout_s=timeout_s, **params)
        if kind == "cancel_early":
            reading = asyncio.ensure_future(anext(stream))
            await asyncio.sleep(self.random.uniform(0, 0.02))
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            stream.cancel()
            return "cancelled"
        num_deltas, reason = 0, None
        async with stream:
            async for delta in stream:
                num_deltas += 1
                if kind == "cancel_midway" and num_deltas >= leave_after:
                    return "cancelled"
                if kind == "abort" and num_deltas == leave_after:
                    await self.client.abort(params["request_id"])
                reason = delta.finished.reason if delta.finished else reason
        return f"finish {reason}"


async def settle(address):
    """The load once nothing lives any more; what has been cancelled needs a moment to be heard of."""
    for _ in range(200):
        load = await asyncio.to_thread(load_of, address)
        if not load.running and not load.waiting:
            break
        await asyncio.sleep(0.1)
    return load


def assert_nothing_held(load):
    assert (load.running, load.waiting, load.waiting_tokens) == (0, 0, 0)
    assert load.free_blocks + load.cached_blocks == load.total_blocks == 300
    assert load.making_progress


async def test_nothing_is_held_after_hundreds_of_mixed_requests(tmp_path, runtime_dir):
    """Finished, cancelled, aborted, expired, refused, stopped by string and by token: all blocks are free, all gauges zero."""
    with serve(tmp_path, environment=SETTINGS) as served:
        async with AsyncClient(served.address, retry=NO_RETRY) as client:
            ended = await Mix(client, seed=1).run(400)
        assert_nothing_held(await settle(scheduler_socket(runtime_dir)))
        assert ended.keys() >= {
            "cancelled",
            "Overloaded",
            "InvalidRequest",
            "NotFound",
            "DeadlineExceeded",
            "finish 1",
            "finish 2",
            "finish 3",
            "finish 4",
        }
        assert "ServerFault" not in ended, served.said()
        assert "executor ended" not in served.said()


@pytest.mark.deep
@pytest.mark.timeout(900)
async def test_memory_is_flat_over_two_thousand_more(tmp_path, runtime_dir):
    """After 2,000 mixed requests and 2,000 more, the three processes' memory does not grow over a third 2,000."""
    with serve(tmp_path, environment=SETTINGS) as served:
        children = served.children()
        ended, held = Counter(), []
        async with AsyncClient(served.address, retry=NO_RETRY) as client:
            for round_number in range(3):
                ended += await Mix(client, seed=2 + round_number).run(2000)
                assert_nothing_held(await settle(scheduler_socket(runtime_dir)))
                held.append({name: footprint(pid) for name, pid in children.items()})
        assert served.children() == children, served.said()
        assert "ServerFault" not in ended
        print("", f"ended: {dict(ended)}", *held, sep="\n")
        _, before, after = held
        for name in children:
            allowed_kib = max(MAX_GROWTH_KIB, before[name].resident_kib // 100)
            assert after[name].resident_kib - before[name].resident_kib < allowed_kib, (name, held)
            assert after[name].descriptors <= before[name].descriptors + 2, (name, held)
            assert after[name].threads <= before[name].threads + 2, (name, held)


def test_the_platform_tells_what_a_process_holds():
    """The measure itself works: this process holds memory, descriptors and threads."""
    mine = footprint(os.getpid())
    assert mine.resident_kib > 1000
    assert mine.descriptors > 2
    assert mine.threads >= 1
