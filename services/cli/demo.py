"""`headway demo`: eight prompts at once, their answers as they grow, and a table of latencies."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from headway.client import AsyncClient, HeadwayError
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from services.cli.console import Failed, err, fail, out
from services.cli.timing import StreamTiming, milliseconds
from services.runtime.settings import SUPERVISOR_PID

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
_POLL_S = 0.1


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
    from services.cli.preflight import check_installed

    check_installed(fake=fake)
    if not fake:
        from services.cli.models import model_to_serve  # a download shows its progress here, before the server is quiet

        model_to_serve("")
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


@contextmanager
def running_server(flags: list[str], environment: Mapping[str, str] = MappingProxyType({})) -> Iterator[str]:
    """A server of our own on a free port, ended afterwards; its address. `environment`: beside what is set already."""
    with tempfile.TemporaryDirectory() as folder:
        ready_file, log = Path(folder) / "address", Path(folder) / "log"
        command = [sys.executable, "-P", "-m", "services.cli.main", "serve", "--port", "0"]
        with log.open("wb") as file:
            server = subprocess.Popen(  # noqa: S603 - our own command
                [*command, "--ready-file", str(ready_file), *flags],
                env={**os.environ, **environment, SUPERVISOR_PID: str(os.getpid())},
                process_group=0,
                stdout=subprocess.DEVNULL,  # facts of a server that ends in seconds
                stderr=file,  # what it says would tear the growing answers
            )
        try:
            while not ready_file.exists():
                if (status := server.poll()) is not None:
                    sys.stderr.write(log.read_text())
                    raise Failed(f"the demo's server did not start (exit code {status}); the reason is above")
                time.sleep(_POLL_S)
            yield ready_file.read_text()
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
