"""Faults under twenty streams: whatever is killed, every stream ends with the tokens of its unfaulted run."""

import asyncio
import os
import re
import signal

import pytest
from headway.client import ServerFault

from services.cli.health import status_of
from tests.support.crowd import Ask, Crowd, twenty
from tests.support.served import serve, wait_until

RANDOM_SCRIPT = {"HEADWAY_EXECUTOR_SIMULATED_SCRIPT": "random", "HEADWAY_EXECUTOR_SIMULATED_STEP_FIXED_US": "5000"}
READINESS = "headway.v1.Inference"
READINESS_PROMISE_S = 2.0
PROMISE_FACTOR = 5


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server for all whose faults it survives; the supervisor has brought back what was lost when their streams end."""
    with serve(tmp_path_factory.mktemp("faults"), environment=RANDOM_SCRIPT) as served:
        yield served


@pytest.fixture(scope="module")
async def calm(served):
    """What twenty streams of 80 tokens give while nobody is harmed."""
    return await Crowd(served.address, twenty(80, ignore_eos=True)).run()


def tokens_of(collected):
    assert [each.error for each in collected] == [None] * len(collected)
    return [each.token_ids for each in collected]


async def run_harmed(served, asks, disturb, at_tokens, timeout_s=90.0):
    """What the requests give when `disturb` harms somebody as soon as there are so many tokens."""

    async def harm(crowd):
        await crowd.until(at_tokens)
        await disturb()

    return await Crowd(served.address, asks, timeout_s).run(harm)


def num_restarts(served, victim):
    """How often the supervisor has said that it starts a killed one again: at once, or soon where it has died often."""
    return len(
        re.findall(rf"the {victim} ended \(signal SIGKILL\)(; starting it again|, .*; next try in)", served.said())
    )


@pytest.mark.parametrize("victim", ["executor", "scheduler", "router"])
async def test_kill_9_of_any_process_changes_no_stream(served, calm, victim):
    """Twenty streams, greedy and at temperature 0.8, end with the tokens and the text of their unfaulted run."""
    before = num_restarts(served, victim)

    async def kill():
        os.kill(served.children()[victim], signal.SIGKILL)

    harmed = await run_harmed(served, twenty(80, ignore_eos=True), kill, at_tokens=500)
    assert tokens_of(harmed) == tokens_of(calm)
    assert [each.text for each in harmed] == [each.text for each in calm]
    assert all(len(each.token_ids) == 80 for each in harmed)
    assert all(each.finished.usage.completion_tokens == 80 for each in harmed)
    assert num_restarts(served, victim) == before + 1


@pytest.mark.deep
@pytest.mark.model
@pytest.mark.timeout(400)
@pytest.mark.parametrize("victim", ["executor", "scheduler", "router"])
async def test_kill_9_of_any_process_of_the_real_model_changes_no_stream(tmp_path, default_model, victim):
    """The same with the default model: twenty streams, greedy and at temperature 0.8, end with their unfaulted tokens."""
    with serve(tmp_path, "--model", str(default_model), fake=False) as served:

        async def kill():
            os.kill(served.children()[victim], signal.SIGKILL)

        asks = twenty(24, ignore_eos=True)
        calm = await Crowd(served.address, asks, timeout_s=180).run()
        harmed = await run_harmed(served, asks, kill, at_tokens=150, timeout_s=180)
        assert tokens_of(harmed) == tokens_of(calm)
        assert [each.text for each in harmed] == [each.text for each in calm]


async def test_all_three_killed_one_after_the_other_change_no_stream(served):
    """Executor, scheduler and router are lost under the same streams, which still end right."""
    asks = twenty(120, ignore_eos=True)
    calm = await Crowd(served.address, asks).run()

    async def kill_each(crowd):
        for victim, at_tokens in (("executor", 300), ("scheduler", 900), ("router", 1500)):
            await crowd.until(at_tokens)
            os.kill(served.children()[victim], signal.SIGKILL)

    harmed = await Crowd(served.address, asks).run(kill_each)
    assert tokens_of(harmed) == tokens_of(calm)


async def test_a_stopped_executor_is_seen_replaced_and_outlived(served, calm):
    """SIGSTOP: readiness falls, the watchdog kills it, the supervisor replaces it, and the streams go on."""
    victim = served.children()["executor"]

    async def stop():
        os.kill(victim, signal.SIGSTOP)
        limit_s = PROMISE_FACTOR * READINESS_PROMISE_S
        is_down = lambda: status_of(served.address, READINESS, 1.0) != "SERVING"  # noqa: E731
        await asyncio.to_thread(wait_until, is_down, limit_s)

    harmed = await run_harmed(served, twenty(80, ignore_eos=True), stop, at_tokens=300)
    assert tokens_of(harmed) == tokens_of(calm)
    assert served.children()["executor"] != victim
    wait_until(lambda: status_of(served.address, READINESS, 1.0) == "SERVING", 10)


async def test_a_poisonous_request_ends_and_its_neighbours_do_not(tmp_path):
    """A request that kills the executor at its token 40 ends INTERNAL after three losses; every other token is right."""
    poison = "~"  # one byte, one token of the simulated model; no other prompt has it
    hooks = {"HEADWAY_TEST_HOOKS": "1", "HEADWAY_EXECUTOR_TEST_KILL_TOKEN": str(ord(poison))}
    asks = twenty(60, ignore_eos=True, banned_token_ids=[ord(poison)])
    with serve(tmp_path, environment=RANDOM_SCRIPT) as served:
        calm = await Crowd(served.address, asks).run()
    with serve(tmp_path, environment=RANDOM_SCRIPT | hooks) as served:
        before = served.children()["executor"]
        poisoned = Ask(f"this kills {poison}", {"max_tokens": 60, "ignore_eos": True, "seed": 1})
        *neighbours, culprit = await Crowd(served.address, [*asks, poisoned]).run()
        assert tokens_of(neighbours) == tokens_of(calm)
        assert isinstance(culprit.error, ServerFault)
        assert len(culprit.token_ids) == 40
        assert served.said().count("the executor ended") == 3
        assert served.children()["executor"] != before
