"""Scripts: how the fake scheduler answers a request.

By default its model says the alphabet: output number k is the k-th letter, whatever was accepted before, so that a
resumed answer can be told from a repeated one.
"""

import asyncio
from collections.abc import Awaitable, Callable

from services.wire.scheduling import FinishCause, Submit
from tests.support.fake_model import END, ids_of, letters
from tests.support.fake_session import FakeSession

Script = Callable[[FakeSession, Submit], Awaitable[None]]


def alphabet(gap_s: float = 0.0, cause: FinishCause = FinishCause.LENGTH) -> Script:
    """Says the alphabet up to max_tokens, one token a step."""

    async def script(session: FakeSession, submit: Submit) -> None:
        for k in range(submit.accepted_count, submit.max_tokens):
            await session.tokens(submit, ids_of(letters(k, 1)))
            await asyncio.sleep(gap_s)
        await session.finish(submit, cause, completion_tokens=submit.max_tokens)

    return script


def says(text: str, *, cause: FinishCause = FinishCause.STOP_TOKEN, at_once: bool = False) -> Script:
    """Says `text`, one token a step or all in one, and ends."""

    async def script(session: FakeSession, submit: Submit) -> None:
        ids = ids_of(text) + ([END] if cause == FinishCause.STOP_TOKEN else [])
        for batch in [ids] if at_once else [[token_id] for token_id in ids]:
            await session.tokens(submit, batch)
        await session.finish(submit, cause)

    return script


def ends_after(count: int) -> Script:
    """Says so many letters beyond what was accepted, and then nothing."""

    async def script(session: FakeSession, submit: Submit) -> None:
        for k in range(submit.accepted_count, submit.accepted_count + count):
            await session.tokens(submit, ids_of(letters(k, 1)))

    return script


def rejects(reason, **fields) -> Script:
    async def script(session: FakeSession, submit: Submit) -> None:
        await session.reject(submit, reason, **fields)

    return script


async def silent(_session: FakeSession, _submit: Submit) -> None:
    """Never answers."""
