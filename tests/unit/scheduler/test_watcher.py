"""A watcher of step records."""

import asyncio

from services.scheduler.watcher import Watcher
from services.wire import codec
from services.wire.scheduling import StepRecord


def _record(step):
    return StepRecord(step=step, at_us=step, token_budget=1)


async def test_a_watcher_sees_the_newest_record_and_skips_the_rest():
    """Records that came in between are left out, never queued."""
    watcher, seen = Watcher(1000), []

    async def write(data):
        seen.append(codec.decode(StepRecord, data).step)

    for step in range(1, 50):
        watcher.show(_record(step))
    watcher.end()
    await watcher.write_to(write)
    assert seen == [49]


async def test_a_watcher_that_does_not_read_holds_nothing_up():
    """While its writer waits, showing costs nothing and keeps one record."""
    watcher, shut, seen = Watcher(1000), asyncio.Event(), []

    async def write(data):
        await shut.wait()
        seen.append(codec.decode(StepRecord, data).step)

    writer = asyncio.create_task(watcher.write_to(write))
    watcher.show(_record(1))
    await asyncio.sleep(0)
    for step in range(2, 1000):
        watcher.show(_record(step))
    watcher.end()
    shut.set()
    await writer
    assert seen == [1, 999]


async def test_the_rate_is_kept():
    """With fifty a second, five records take at least four pauses."""
    watcher, seen = Watcher(50), []

    async def write(data):
        seen.append(data)

    async def show_many():
        step = 0
        while len(seen) < 5:
            step += 1
            watcher.show(_record(step))
            await asyncio.sleep(0.001)
        watcher.end()

    loop = asyncio.get_running_loop()
    started = loop.time()
    await asyncio.gather(watcher.write_to(write), show_many())
    assert loop.time() - started >= 4 * 0.02
