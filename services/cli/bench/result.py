"""The result of a run: a record of every request that was to be sent, and how it is written as JSON.

All times are seconds of one monotonic clock, the client's, from the start of the run. The format only grows.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from services.runtime.files import write_whole

FORMAT = "headway-bench/1"

Status = Literal["ok", "refused", "timeout", "failed"]
"""ok: the answer ended as it should. refused: the server said that it is too busy, before the first token. timeout: not
ended within the client's limit. failed: anything else, a broken stream included."""


@dataclass(slots=True, kw_only=True)
class Record:
    """One request: when it was to be sent, when it was sent, when what came, and how it ended."""

    index: int
    conversation: int | None = None
    turn: int = 0
    intended_s: float
    """When the workload would have it sent: its arrival, or when its user had done with thinking."""
    sent_s: float
    end_s: float = 0.0
    """When its status was known. Of an "ok" one with messages, no earlier than the last of them."""
    message_s: list[float] = field(default_factory=list)
    """When each message with tokens came."""
    message_tokens: list[int] = field(default_factory=list)
    """How many tokens each of these messages held."""
    counts_told: bool = True
    """False: the server did not say how many tokens a message holds, and each is counted as one."""
    input_tokens: int = 0
    """As the server counts the prompt; as the workload does where the server does not say."""
    output_tokens: int = 0
    asked_tokens: int = 0
    cached_tokens: int | None = None
    """Prompt tokens that the server found in its prefix cache; None: it does not say."""
    status: Status = "failed"
    error: str = ""

    @property
    def first_s(self) -> float | None:
        """When the first token came."""
        return self.message_s[0] if self.message_s else None


@dataclass(slots=True, kw_only=True)
class Run:
    """One repeat of a workload: its records, in the order of the workload, and how well the generator kept up."""

    repeat: int
    seed: int
    duration_s: float
    """From the start of the run to the end of the last request, ramp and drain included."""
    records: list[Record]
    loop_lag_p99_s: float = 0.0
    """How late the generator's own event loop woke up when it was to wake up."""
    cpu_share: float = 0.0
    """CPU seconds that the generator used for each second of the run."""

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Reads what `asdict` made."""
        return cls(**{**fields, "records": [Record(**record) for record in fields["records"]]})


def document(
    target: Mapping[str, Any], workload: Mapping[str, Any], runs: Sequence[Run], summary: Mapping[str, Any]
) -> dict[str, Any]:
    """A whole result, ready for JSON: what was measured (target, workload), every record, and the metrics made of them."""
    return {
        "format": FORMAT,
        "target": dict(target),
        "workload": dict(workload),
        "summary": dict(summary),
        "runs": [asdict(run) for run in runs],
    }


def write(path: Path, result: Mapping[str, Any]) -> None:
    """Writes a result, whole or not at all."""
    write_whole(path, json.dumps(result, allow_nan=False, separators=(",", ":")) + "\n")


def read_runs(path: Path) -> list[Run]:
    """The runs of a written result. Raises `ValueError` for a file that is none."""
    result = json.loads(path.read_text())
    if not isinstance(result, dict) or result.get("format") != FORMAT:
        raise ValueError(f"not a result of the format {FORMAT}")
    return [Run.of(run) for run in result["runs"]]
