"""What a target is: something that a request is sent to and that answers in messages. Also how a prompt is put together."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, Self

from services.cli.bench.result import Record
from services.cli.bench.workload import Request

Prompts = Literal["text", "chat", "ids"]

FIRST_ID = 1000
"""The token id of the first word: past the special tokens and single bytes that most vocabularies begin with."""


class Refused(Exception):
    """The server said that it is too busy."""


class Broken(Exception):
    """A request failed in another way; the words are for the report."""


@dataclass(slots=True)
class Answer:
    """What a target said to one request, for the conversation to go on with."""

    text: str = ""
    token_ids: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Exchange:
    """A turn of a conversation that is over."""

    request: Request
    answer: Answer


@dataclass(frozen=True, slots=True)
class Facts:
    """What a target says of itself, for the result."""

    kind: str
    address: str
    model: str
    details: dict[str, str | int | bool] = field(default_factory=dict)


class Clock:
    """Seconds since a run began."""

    def __init__(self) -> None:
        self._started_s = time.perf_counter()

    def now_s(self) -> float:
        return time.perf_counter() - self._started_s


class Target(Protocol):
    """Where requests go."""

    async def facts(self) -> Facts:
        """Asks who is there. Raises `Broken` where nobody answers."""

    async def send(self, request: Request, before: Sequence[Exchange], record: Record, clock: Clock) -> Answer:
        """Sends one request after what was said before, and notes in `record` what comes. Raises `Refused` or `Broken`."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...


def chat_of(before: Sequence[Exchange], request: Request) -> list[dict[str, str]]:
    """The conversation as chat messages, the new turn last."""
    messages = []
    for each in before:
        messages.append({"role": "user", "content": each.request.text})
        messages.append({"role": "assistant", "content": each.answer.text})
    return [*messages, {"role": "user", "content": request.text}]


def text_of(before: Sequence[Exchange], request: Request) -> str:
    """The conversation as one text: all that was said, in order."""
    return "".join(f"{each.request.text}{each.answer.text}\n" for each in before) + request.text


def ids_of(before: Sequence[Exchange], request: Request, first_id: int = FIRST_ID) -> list[int]:
    """The conversation as token ids: the answers' own, so that a prefix cache finds them again."""
    ids: list[int] = []
    for each in before:
        ids += each.request.token_ids(first_id)
        ids += each.answer.token_ids
    return ids + request.token_ids(first_id)
