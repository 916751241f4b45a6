"""What can be asked of `headway bench`, and the workload that it comes to. Needs no library beyond the base install."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cyclopts import Parameter
from headway.client import DEFAULT_ADDRESS

from services.cli.bench.lengths import Lengths
from services.cli.bench.named import OPEN_DURATION_S, named
from services.cli.bench.workload import Pace, Shape
from services.runtime.lifecycle import BadSetting


@Parameter(name="*", group="Target")
@dataclass(frozen=True, slots=True, kw_only=True)
class TargetOptions:
    """Who is measured.

    Attributes:
        address: A Headway server, over gRPC: host:port or unix:PATH.
        http: Instead, any OpenAI-compatible server, by its URL, such as http://127.0.0.1:8000. A key in OPENAI_API_KEY
            is sent with each request.
        model: Which model, where several are served; the first by default.
        prompts: Send prompts as plain text, as chat messages, or as token ids.
        timeout_s: A request that has not ended after so many seconds counts as failed.
    """

    address: str = DEFAULT_ADDRESS
    http: str = ""
    model: str = ""
    prompts: Literal["text", "chat", "ids"] = "text"
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        if self.http and not self.http.startswith(("http://", "https://")):
            raise BadSetting(f"--http wants a URL, such as http://127.0.0.1:8000, not {self.http!r}")
        if not self.timeout_s > 0:
            raise BadSetting("--timeout-s must be above zero")


@Parameter(name="*", group="Workload")
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadOptions:
    """What is sent, and when. Whatever else is given changes the named workload.

    Attributes:
        workload: W1: 64 requests at once. W2: one stream. W3: Poisson arrivals for 60 s. W4: 64 at once that share 512
            tokens. W5: 16 people, conversations of 8 turns.
        requests: How many requests in all.
        input: Tokens of a prompt: a number, uniform:LEAST:MOST, or lognormal:MEDIAN:SIGMA:LEAST:MOST.
        output: Tokens of an answer, the same. The target is told to give exactly so many.
        concurrency: Closed loop: so many requests at any time.
        users: So many people, each of whom waits for an answer, thinks, and goes on.
        think: Seconds that a person thinks.
        rate: Open arrivals, so many requests per second whatever the answers take. Stretches a trace to this rate.
        burstiness: Shape of the Gamma law of gaps between arrivals: 1 is Poisson, less is burstier, inf is a metronome.
        duration: Seconds of open arrivals, instead of a number of requests; of each load of a sweep.
        prefix: Tokens that all prompts begin with.
        turns: Turns of each conversation.
        trace: Replay a file instead: Mooncake JSONL, or CSV of Azure or BurstGPT.
        seed: The same seed sends the same requests, to any target.
    """

    workload: str = "W1"
    requests: int | None = None
    input: str | None = None
    output: str | None = None
    concurrency: int | None = None
    users: int | None = None
    think: float | None = None
    rate: float | None = None
    burstiness: float | None = None
    duration: float | None = None
    prefix: int | None = None
    turns: int | None = None
    trace: Path | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if sum(each is not None for each in (self.concurrency, self.users, self.rate)) > 1:
            raise BadSetting("give one of --concurrency, --users and --rate")
        if self.requests is not None and self.duration is not None:
            raise BadSetting("give one of --requests and --duration: each says when open arrivals end")
        if self.trace is not None and (unused := self._given(_NOT_OF_A_TRACE)):
            raise BadSetting(f"a trace says that itself: leave out --{unused[0]}")
        for name in ("rate", "duration", "concurrency", "users", "requests"):
            if (value := getattr(self, name)) is not None and not value > 0:
                raise BadSetting(f"--{name} must be above zero")

    def shape(self, *, swept: bool = False) -> Shape:
        """The named workload with what was given changed; a sweep brings loads of its own. Raises `BadSetting`."""
        if swept and (unused := self._given(_NOT_OF_A_SWEEP)):
            raise BadSetting(f"a sweep sends single requests at loads of its own: leave out --{unused[0]}")
        shape = named(self.workload)
        shape = replace(
            shape,
            input_lengths=Lengths.of(self.input) if self.input else shape.input_lengths,
            output_lengths=Lengths.of(self.output) if self.output else shape.output_lengths,
            turn_lengths=None if self.input else shape.turn_lengths,
            shared_prefix_tokens=shape.shared_prefix_tokens if self.prefix is None else self.prefix,
        )
        pace = self._pace(shape.pace, swept=swept)
        num_requests, turns = self.requests or shape.num_requests, self.turns or shape.turns
        if pace.rate_per_s > 0:
            turns = self.turns or 1  # what arrives by itself is no conversation, unless somebody insists, and is told
            if self.requests is None and (self.rate is not None or self.duration is not None):
                num_requests = max(round(pace.rate_per_s * (self.duration or OPEN_DURATION_S)), 1)
        elif self.requests is None and self.turns:
            num_requests = max(shape.num_requests // shape.turns, 1) * turns  # as many conversations as before
        name = f"{shape.name}, changed" if self._changes(swept=swept) else shape.name
        return replace(shape, name=name, pace=pace, num_requests=num_requests, turns=turns)

    def _pace(self, pace: Pace, *, swept: bool) -> Pace:
        if self.rate is not None:
            pace = Pace(rate_per_s=self.rate, burstiness=pace.burstiness)
        elif self.users is not None:
            pace = Pace(users=self.users, think_s=pace.think_s)
        elif self.concurrency is not None:
            pace = Pace(concurrency=self.concurrency)
        is_open = swept or pace.rate_per_s > 0
        if self.think is not None and not pace.users:
            raise BadSetting("--think belongs to people: give --users too")
        if (unused := self._given(("burstiness", "duration"))) and not is_open:
            raise BadSetting(f"--{unused[0]} belongs to open arrivals: give --rate too")
        return replace(
            pace,
            think_s=pace.think_s if self.think is None else self.think,
            burstiness=pace.burstiness if self.burstiness is None else self.burstiness,
        )

    def _given(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if getattr(self, name) is not None]

    def _changes(self, *, swept: bool) -> bool:
        """Whether it is no longer the named workload itself; W3's rate is its own to choose, and a sweep's duration its."""
        changed = self._given(_CHANGES)
        own = ["duration"] if swept else ["rate"] if self.workload.upper() == "W3" else []
        return changed not in ([], own)


_NOT_OF_A_TRACE = ("input", "output", "concurrency", "users", "think", "burstiness", "duration", "prefix", "turns")
_NOT_OF_A_SWEEP = ("requests", "rate", "users", "think", "turns")
_CHANGES = (*_NOT_OF_A_TRACE, "requests", "rate")


@Parameter(name="*", group="Report")
@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOptions:
    """How often it is measured, what it must keep to, and where the result goes.

    Attributes:
        repeats: Runs, each with words of its own; intervals are over these where there are two or more.
        warmup: Requests before the first run that are not measured.
        slo: Limits, such as ttft_p99=500ms,tbt_p99=50ms, or llama3.1-8b-server or llama3.1-8b-interactive (MLPerf's).
            Exit code 0 where all hold, 1 where one fails.
        sweep: Measure the capacity, then latency at 10 to 120 % of it.
        price_per_hour: What the server costs per hour, for the cost of a request and of a million tokens.
        json: Write every request's record and the summary to this file.
        html: Write a page with plots to this file.
    """

    repeats: int = 1
    warmup: int = 4
    slo: str = ""
    sweep: bool = False
    price_per_hour: float | None = None
    json: Path | None = None
    html: Path | None = None

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.warmup < 0:
            raise BadSetting("--repeats must be at least 1, --warmup at least 0")
        if self.price_per_hour is not None and not 0 <= self.price_per_hour < float("inf"):
            raise BadSetting("--price-per-hour must be a price")


DEFAULT_TARGET, DEFAULT_WORKLOAD, DEFAULT_REPORT = TargetOptions(), WorkloadOptions(), ReportOptions()
