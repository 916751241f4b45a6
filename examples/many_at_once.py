"""Streams many prompts at the same time over one connection; the server computes them together."""

import argparse
import asyncio
import time

from headway.client import AsyncClient, HeadwayError


async def answer(client: AsyncClient, number: int) -> int:
    """Streams one answer; how many tokens it had."""
    prompt = [{"role": "user", "content": f"Tell me a fact about the number {number}."}]
    stream = client.generate(prompt, max_tokens=24)
    try:
        num_tokens = 0
        async for delta in stream:
            num_tokens += len(delta.token_ids)
    except HeadwayError as error:
        print(f"{number}: {type(error).__name__}: {error}")
        raise
    print(f"{number}: {stream.text.strip()}")
    return num_tokens


async def run(address: str, count: int) -> None:
    began_s = time.monotonic()
    async with AsyncClient(address) as client:
        counts = await asyncio.gather(*(answer(client, number) for number in range(count)))
    took_s = time.monotonic() - began_s
    print(f"{sum(counts)} tokens in {took_s:.1f} s: {sum(counts) / took_s:.1f} tokens/s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", default="127.0.0.1:50051")
    parser.add_argument("--count", type=int, default=16)
    arguments = parser.parse_args()
    asyncio.run(run(arguments.address, arguments.count))


if __name__ == "__main__":
    main()
