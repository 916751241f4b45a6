"""How these tests ask: with short pauses between attempts, and to the end."""

from headway.client import RetryPolicy

FAST = RetryPolicy(max_attempts=4, first_pause_s=0.01, max_pause_s=0.05)


async def collect(stream):
    return [each async for each in stream]
