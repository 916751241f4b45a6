"""Faults of a whole server under twenty streams: whatever dies, each stream ends with the tokens of its unfaulted run."""

import asyncio
import os
import signal
import time

import pytest
from headway.client import AsyncClient, RetryPolicy, ServerFault

from services.cli.health import READINESS, status_of
from tests.support.served import serve, wait_until

NUM_STREAMS = 20
PATIENT = RetryPolicy(max_attempts=30)
LIMIT_S = 90.0
POISON = 1  # a token id of the simulated model that no other prompt here holds
SIMULATED = {
    "HEADWAY_EXECUTOR_SIMULATED_SCRIPT": "random",
    "HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": "15000",
}


async def stream_one(client, number, max_tokens, begun=None):
    """One of the twenty: even numbers are greedy, odd ones drawn at temperature 0.8."""
    tokens, text = [], ""
    stream = client.generate(
        f"stream number {number}",
        max_tokens=max_tokens,
        ignore_eos=True,
        temperature=0.0 if number % 2 == 0 else 0.8,
        seed=number,
    )
    async for delta in stream:
        tokens += delta.token_ids
        text += delta.text
        if begun is not None and delta.token_ids:
            begun.add(number)
    return tokens, text


async def stream_all(address, max_tokens, fault=None):
    """Streams all twenty at once; `fault` is called when each has had a token."""
    begun = set()
    async with AsyncClient(address, retry=PATIENT) as client, asyncio.timeout(LIMIT_S):
        tasks = [asyncio.create_task(stream_one(client, number, max_tokens, begun)) for number in range(NUM_STREAMS)]
        if fault is not None:
            while len(begun) < NUM_STREAMS:
                await asyncio.sleep(0.01)
            assert not any(task.done() for task in tasks)
            fault()
        return await asyncio.gather(*tasks)


@pytest.mark.parametrize("victim", ["executor", "router", "scheduler"])
async def test_kill_9_of_a_process_costs_no_stream_a_token(tmp_path, victim):
    """Kill -9 in mid-stream: the process is replaced, and all twenty get every token once."""
    with serve(tmp_path, environment=SIMULATED) as served:
        expected = await stream_all(served.address, 120)
        before = served.children()
        answers = await stream_all(served.address, 120, lambda: os.kill(before[victim], signal.SIGKILL))
        assert answers == expected
        assert all(len(tokens) == 120 for tokens, _ in answers)
        wait_until(lambda: set(served.children()) == set(before), LIMIT_S)
        assert [name for name, pid in served.children().items() if pid != before[name]] == [victim]
        assert f"the {victim} ended (signal SIGKILL); starting it again" in served.said()
        assert served.end() == 0


async def test_a_hung_executor_is_seen_and_replaced(tmp_path):
    """SIGSTOP of the executor: readiness falls, the watchdog replaces it, the streams go on to the same end."""
    with serve(tmp_path, environment=SIMULATED) as served:
        expected = await stream_all(served.address, 120)
        executor = served.children()["executor"]
        stopped_s = []

        def stop():
            os.kill(executor, signal.SIGSTOP)
            stopped_s.append(time.monotonic())

        watching = asyncio.create_task(asyncio.to_thread(_falls, served.address, stopped_s))
        answers = await stream_all(served.address, 120, stop)
        assert await watching <= 2.0 * 5
        assert answers == expected
        assert served.children()["executor"] != executor
        assert served.end() == 0


def _falls(address, since):
    """Seconds from `since` until the server is not ready."""
    wait_until(lambda: since and status_of(address, READINESS, 1) == "NOT_SERVING", LIMIT_S)
    return time.monotonic() - since[0]


async def test_a_poisonous_request_ends_alone(tmp_path):
    """A request that kills the executor at its token 40 ends INTERNAL after three losses; its neighbours lose no token."""
    hooks = {"HEADWAY_TEST_HOOKS": "1", "HEADWAY_EXECUTOR_TEST_KILL_TOKEN": str(POISON)}
    with serve(tmp_path, environment={**SIMULATED, **hooks}) as served:
        expected = await stream_all(served.address, 120)
        async with AsyncClient(served.address, retry=PATIENT) as client:

            async def poison():
                async for _ in client.generate([POISON, 100], max_tokens=60, ignore_eos=True, seed=1):
                    pass

            poisoned = asyncio.create_task(poison())
            assert await stream_all(served.address, 120) == expected
            with pytest.raises(ServerFault):
                await asyncio.wait_for(poisoned, LIMIT_S)
        assert served.said().count("the executor ended (signal SIGKILL)") == 3
        assert served.end() == 0
