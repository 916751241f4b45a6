"""Recorded traffic as a workload: Mooncake's JSONL, and the CSV files of Azure and BurstGPT.

Mooncake (Qin et al., FAST '25): one object a line with `timestamp` (ms), `input_length`, `output_length` and `hash_ids`,
one for each 512 tokens of the prompt; equal ids are equal tokens. Azure: TIMESTAMP, ContextTokens, GeneratedTokens.
BurstGPT: Timestamp (s), Request tokens, Response tokens. None of them holds any text: words are drawn from the seed.
"""

import csv
import json
import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from itertools import islice, pairwise
from pathlib import Path

from services.cli.bench.arrivals import offsets
from services.cli.bench.workload import Pace, Request, Workload, draw_words
from services.runtime.lifecycle import BadSetting

BLOCK_TOKENS = 512
_MAX_TOKENS = 10_000_000  # of one prompt; more is a broken file


@dataclass(frozen=True, slots=True)
class Row:
    """One recorded request."""

    at_s: float
    input_tokens: int
    output_tokens: int
    hash_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (
            math.isfinite(self.at_s) and 0 < self.input_tokens <= _MAX_TOKENS and self.output_tokens <= _MAX_TOKENS
        ):
            raise ValueError("a time or a length is out of range")


def read(path: Path, num_requests: int | None = None) -> list[Row]:
    """The first rows of a trace, by time. A row without output tokens, a failure then, is left out. Raises `BadSetting`."""
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = sorted(islice(_answered(file), num_requests), key=lambda row: row.at_s)
    except OSError as error:
        raise BadSetting(f"cannot read the trace {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadSetting(f"{path} is no trace of Mooncake, Azure or BurstGPT: {error!r}") from None
    if not rows:
        raise BadSetting(f"the trace {path} holds no request with an answer")
    return rows


def replay(name: str, rows: Sequence[Row], rate_per_s: float | None, seed: int, repeat: int = 0) -> Workload:
    """The rows as a workload; with a rate, its gaps are stretched so that their sum is exactly requests / rate."""
    began_s, count = rows[0].at_s, len(rows)
    arrivals_s = [row.at_s - began_s for row in rows]
    if rate_per_s is not None:
        gaps_s = [0.0, *(later - earlier for earlier, later in pairwise(arrivals_s))]
        arrivals_s = offsets(gaps_s, count / rate_per_s)
    elif arrivals_s[-1] == 0:
        raise BadSetting("the trace has no duration; give --rate")
    rate_per_s = rate_per_s or count / arrivals_s[-1]
    key = f"{seed} {repeat} {name} {count} {rate_per_s:g}"  # no other replay finds these words in the prefix cache
    rng = random.Random(f"{key} own")  # noqa: S311 - a benchmark's dice

    @cache
    def block(hash_id: int) -> bytes:
        return draw_words(random.Random(f"{key} block {hash_id}"), BLOCK_TOKENS)  # noqa: S311

    requests = []
    for index, (row, arrival_s) in enumerate(zip(rows, arrivals_s, strict=True)):
        known = b"".join(map(block, row.hash_ids))[: row.input_tokens]
        prompt = known + draw_words(rng, row.input_tokens - len(known))
        requests.append(Request(index=index, prompt=prompt, output_tokens=row.output_tokens, arrival_s=arrival_s))
    return Workload(name=name, pace=Pace(rate_per_s=rate_per_s), seed=seed, repeat=repeat, requests=tuple(requests))


def _answered(file: Iterable[str]) -> Iterator[Row]:
    lines = iter(file)
    first = next(lines, "")
    every = _mooncake(first, lines) if first.lstrip().startswith("{") else _csv(first, lines)
    return (row for row in every if row.output_tokens > 0)


def _mooncake(first: str, lines: Iterable[str]) -> Iterator[Row]:
    for line in (first, *lines):
        if line.strip():
            said = json.loads(line)
            hash_ids = tuple(map(int, said.get("hash_ids", ())))
            yield Row(said["timestamp"] / 1000, int(said["input_length"]), int(said["output_length"]), hash_ids)


def _csv(header: str, lines: Iterable[str]) -> Iterator[Row]:
    names = next(csv.reader([header.removeprefix("\ufeff")]), [])
    if "ContextTokens" in names:
        for row in csv.DictReader(lines, names):
            at_s = datetime.fromisoformat(row["TIMESTAMP"]).replace(tzinfo=UTC).timestamp()
            yield Row(at_s, int(row["ContextTokens"]), int(row["GeneratedTokens"]))
    elif "Request tokens" in names:
        for row in csv.DictReader(lines, names):
            yield Row(float(row["Timestamp"]), int(row["Request tokens"]), int(row["Response tokens"]))
    else:
        raise ValueError(f"the first line is {header.strip()[:80]!r}")
