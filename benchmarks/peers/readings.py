"""Readings: the few numbers that a run of a workload comes to, by name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from services.cli.bench.metrics import METRICS
from services.cli.bench.result import Record, Run
from services.cli.bench.stats import percentile

Values = Mapping[str, float]

TOKENS_PER_S = "output, tokens/s"
READY = "start to first token, s"
MEMORY = "peak memory, MiB"
_CACHED = "cached"
_BEHIND = 1.5


@dataclass(frozen=True, slots=True)
class Reading:
    """What one visit to a peer measured with one workload, or why it could not."""

    round: int
    place: int
    """Which visit of the session it was: visits next to each other are compared."""
    peer: str
    workload: str
    values: Values
    problem: str = ""


def more_is_better(name: str) -> bool | None:
    """Of a speed more is, of times and memory less; None for what is only told beside them."""
    return None if name.startswith(_CACHED) else name == TOKENS_PER_S


def values_of(run: Run) -> dict[str, float]:
    """Speed, times to first token and per token; of conversations the first of these turn by turn."""
    answered = [record for record in run.records if record.status == "ok"]
    if not answered:
        return {}
    values = {TOKENS_PER_S: sum(record.output_tokens for record in answered) / run.duration_s}
    for metric in ("ttft", "tpot"):
        found = _all(metric, answered)
        for percent in (50, 99):
            if found:
                values[f"{metric.upper()} p{percent}, ms"] = percentile(found, percent) * 1000
    for turn in sorted({record.turn for record in answered if record.conversation is not None}):
        values |= _of_turn([record for record in answered if record.turn == turn], turn + 1)
    if (cached := _cached(answered)) is not None:
        values[f"{_CACHED} prompt tokens, %"] = cached
    return values


def _of_turn(records: Sequence[Record], number: int) -> dict[str, float]:
    values = {f"TTFT p50 of turn {number}, ms": percentile(_all("ttft", records), 50) * 1000}
    if (cached := _cached(records)) is not None:
        values[f"{_CACHED} of turn {number}, %"] = cached
    return values


def _all(metric: str, records: Sequence[Record]) -> list[float]:
    return [value for record in records for value in METRICS[metric](record)]


def _cached(records: Sequence[Record]) -> float | None:
    """Prompt tokens that were found in a prefix cache, in percent; None where the peer does not say."""
    told = [record for record in records if record.cached_tokens is not None]
    prompt_tokens = sum(record.input_tokens for record in told)
    return 100 * sum(record.cached_tokens or 0 for record in told) / prompt_tokens if prompt_tokens else None


def problem_of(run: Run) -> str:
    """Why a run does not count; empty: it does."""
    bad = [record for record in run.records if record.status != "ok"]
    return f"{len(bad)} of {len(run.records)} requests ended {bad[0].status}: {bad[0].error}" if bad else ""


def is_behind(run: Run, open_for_s: float) -> bool:
    """Whether what arrived in `open_for_s` took far longer to be answered: a higher rate need not be tried."""
    return open_for_s > 0 and run.duration_s > _BEHIND * open_for_s
