"""Innocents: whoever merely runs when an executor is killed is neither convicted nor loses a token."""

import asyncio
import os
import random

import pytest

from services.scheduler.core.core import Core
from services.scheduler.recorder import read_log, read_settings
from services.wire.event_log import ExecutorDown, LogPlan
from services.wire.scheduling import Finished
from tests.integration.scheduler_harness import random_answer, submit

NUM_STREAMS = 12
NUM_TOKENS = 1000
MEAN_LIFE_S = 0.4
EXECUTOR = {"simulated_step_fixed_us": 5000, "simulated_step_per_token_us": 2, "simulated_num_blocks": 8000}


@pytest.mark.parametrize("num_kills", [10, pytest.param(200, marks=[pytest.mark.deep, pytest.mark.timeout(900)])])
async def test_random_kills_convict_no_innocent(cluster, new_router, num_kills):
    """The executor is killed with kill -9 again and again, at any moment: nobody ends, and nobody even runs alone.

    Two losses in a row without growth between them are what a poisonous request does, so the second loss may quarantine.
    """
    seed = int.from_bytes(os.urandom(4))
    print(f"seed {seed}")
    chance = random.Random(seed)
    scheduler = cluster.start_scheduler(record=cluster.directory / "events")
    executor = cluster.start_executor(**EXECUTOR)
    router = await new_router()
    await router.ready()
    prompts = {}

    async def top_up():
        while len(prompts) - len(router.ends) < NUM_STREAMS:
            handle = len(prompts)
            prompts[handle] = b"stream %d" % handle
            await router.send(submit(handle, prompt=prompts[handle], max_tokens=NUM_TOKENS, request_id=str(handle)))

    for _ in range(num_kills):
        await top_up()
        await asyncio.sleep(chance.expovariate(1 / MEAN_LIFE_S))
        num_hellos = len(router.hellos)
        executor.kill()
        executor.wait()
        executor = cluster.start_executor(**EXECUTOR)
        await router.until(lambda: len(router.hellos) > num_hellos)  # noqa: B023

    await router.until(lambda: len(router.ends) == len(prompts), timeout_s=60)
    assert not [end for end in router.ends.values() if not isinstance(end, Finished)]
    for handle, prompt in prompts.items():
        assert router.tokens[handle] == random_answer(prompt, handle, NUM_TOKENS)
    scheduler.kill()
    scheduler.wait()
    assert not any(num_losses > 2 for num_losses in quarantines(cluster.directory / "events"))


def quarantines(log):
    """After how many losses each quarantine began."""
    records = read_log(log)
    core = Core(read_settings(next(records)))
    num_losses, quarantined, found = 0, set(), []
    for record in records:
        if isinstance(record.body, LogPlan):
            core.plan(record.body.at_us)
            continue
        core.handle(record.body)
        if isinstance(record.body.body, ExecutorDown):
            num_losses += 1
            now = {sequence.serial for sequence in core._lifecycle.registry if sequence.is_quarantined}
            found += [num_losses] * len(now - quarantined)
            quarantined = now
    print(f"{num_losses} losses, quarantines after {found}")
    assert num_losses
    return found
