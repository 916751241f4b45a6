"""The line protocol between the ruler and a peer in a process of its own: JSON, one message a line.

Up to the peer go `Ask`s; an end of the stream ends it. Down come one `Ready`, then a `Told` for whatever a step brought.
Standard library only: a peer's own environment imports this.
"""

import json
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Ask:
    """One request: prompt token ids, and exactly how many tokens the answer is to have."""

    id: int
    prompt: list[int]
    num_tokens: int


@dataclass(frozen=True, slots=True)
class Ready:
    """The model is loaded."""


@dataclass(frozen=True, slots=True)
class Told:
    """What one step brought.

    `at_s` is the peer's `perf_counter`, which on Linux is one clock for all processes, read when the tokens were known:
    neither the pipe nor the ruler's own delay is put to the peer's account.
    """

    at_s: float
    tokens: dict[int, list[int]] = field(default_factory=dict)  # of each request, by its id
    finished: list[int] = field(default_factory=list)
    failed: dict[int, str] = field(default_factory=dict)


Message = Ask | Ready | Told
_KINDS: dict[str, type[Message]] = {"ask": Ask, "ready": Ready, "told": Told}
_NAMES = {kind: name for name, kind in _KINDS.items()}
_BY_ID = {"tokens", "failed"}


class BadLine(Exception):
    """The line is no message."""


def line_of(message: Message) -> str:
    """The message as one line, its end included."""
    return json.dumps({"kind": _NAMES[type(message)]} | asdict(message), separators=(",", ":")) + "\n"


def message_of(line: str) -> Message:
    """What a line says. Raises `BadLine`."""
    try:
        fields = json.loads(line)
        kind = _KINDS[fields.pop("kind")]
        for name in _BY_ID & fields.keys():  # JSON knows no other keys than texts
            fields[name] = {int(request_id): value for request_id, value in fields[name].items()}
        return kind(**fields)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadLine(f"no message of the peer protocol: {line[:200]!r}") from error
