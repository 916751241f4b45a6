"""`headway demo`: eight prompts at once, their answers as they grow, and a table of latencies."""

import asyncio
import time
from dataclasses import dataclass, field

from headway.client import AsyncClient, HeadwayError
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from services.cli.console import err, fail, out
from services.cli.demo_server import make_sure, running_server
from services.cli.timing import StreamTiming, milliseconds

PROMPTS = (
    "Why is the sky blue?",
    "Write a haiku about trains.",
    "Name three uses of a paper clip.",
    "What is the capital of Australia?",
    "Explain recursion to a child.",
    "Give me a recipe for pancakes.",
    "Say 'good morning' in French.",
    "What do bees do in winter?",
)
_SHOWN_CHARACTERS = 160


@dataclass(slots=True)
class Row:
    """One prompt and what has come of it."""

    prompt: str
    timing: StreamTiming = field(default_factory=StreamTiming)
    text: str = ""
    error: str = ""


def demo(*, address: str = "", max_tokens: int = 32, fake: bool = False) -> int:
    """Stream eight prompts at once and show the latencies; exit code 1 when one of them failed.

    Args:
        address: A server that runs; by default one is started, and ended afterwards.
        max_tokens: The most tokens of each answer.
        fake: Start a simulated server.
    """
    if address:
        return stream_all(address, max_tokens)
    make_sure(fake=fake)
    err.print("headway: starting a server for the demo")
    with running_server(["--fake"] if fake else []) as started:
        return stream_all(started, max_tokens)


def stream_all(address: str, max_tokens: int) -> int:
    """Streams all prompts at once from the server at `address`; the exit code."""
    rows = [Row(prompt) for prompt in PROMPTS]
    began_s = time.monotonic()
    if out.is_terminal:
        with Live(get_renderable=lambda: answers(rows), console=out, refresh_per_second=8, vertical_overflow="visible"):
            asyncio.run(_stream_rows(rows, address, max_tokens))
    else:
        asyncio.run(_stream_rows(rows, address, max_tokens))
        for row in rows:
            out.print(f"{row.prompt}\n  {row.text or row.error}", markup=False, soft_wrap=True)
    took_s = time.monotonic() - began_s
    out.print("", latencies(rows))
    total = sum(row.timing.num_tokens for row in rows)
    out.print(f"{total} tokens in {took_s:.1f} s, {total / took_s:.1f} tokens/s in all")
    failed = [row for row in rows if row.error]
    for row in failed:
        fail(f"{row.prompt} {row.error}")
    return 1 if failed else 0


async def _stream_rows(rows: list[Row], address: str, max_tokens: int) -> None:
    async with AsyncClient(address) as client:
        await asyncio.gather(*(_stream_row(client, row, max_tokens) for row in rows))


async def _stream_row(client: AsyncClient, row: Row, max_tokens: int) -> None:
    row.timing = StreamTiming()
    try:
        said = [{"role": "user", "content": row.prompt}]
        async for delta in client.generate(said, max_tokens=max_tokens, temperature=0.0):
            row.timing.note(len(delta.token_ids))
            row.text += delta.text
    except HeadwayError as error:
        row.error = str(error)


def answers(rows: list[Row]) -> Group:
    """The answers so far."""
    return Group(
        *(
            Text.assemble((row.prompt + "\n", "bold"), "  " + " ".join(row.text.split())[-_SHOWN_CHARACTERS:])
            for row in rows
        )
    )


def latencies(rows: list[Row]) -> Table:
    """What each stream's reader measured."""
    table = Table(box=None, pad_edge=False)
    table.add_column("prompt", no_wrap=True)
    for name in ("tokens", "TTFT", "TBT mean", "TBT max", "tokens/s"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        timing = row.timing
        rate = "-" if timing.tokens_per_s is None else f"{timing.tokens_per_s:.1f}"
        longest = timing.longest_gap_s if timing.mean_gap_s is not None else None
        gaps = milliseconds(timing.mean_gap_s), milliseconds(longest)
        table.add_row(row.prompt, str(timing.num_tokens), milliseconds(timing.first_s), *gaps, rate)
    return table
