"""What answers cost at a load that holds its SLO, given the price of the machine for an hour."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from services.cli.bench.result import Run
from services.cli.bench.slo import MAX_FAILED_SHARE, Judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Money, in whatever currency the price was. Each line bears the whole price: they are not to be added up."""

    per_request: float
    per_million_input_tokens: float
    per_million_output_tokens: float

    def as_dict(self) -> dict[str, float]:
        return asdict(self)

    def lines(self) -> list[str]:
        return [
            f"cost: {self.per_request:.4g} per request",
            f"  {self.per_million_output_tokens:.4g} per million output tokens, if they bear all of it",
            f"  {self.per_million_input_tokens:.4g} per million input tokens, if they bear all of it",
        ]


def cost(price_per_hour: float, runs: Sequence[Run]) -> Cost:
    """The price of the runs' time, over what was answered in it."""
    answered = [record for run in runs for record in run.records if record.status == "ok"]
    price = price_per_hour * sum(run.duration_s for run in runs) / 3600
    return Cost(
        per_request=price / len(answered),
        per_million_input_tokens=price / sum(record.input_tokens for record in answered) * 1e6,
        per_million_output_tokens=price / sum(record.output_tokens for record in answered) * 1e6,
    )


def why_no_cost(judgement: Judgement | None) -> str | None:
    """Why a run has no cost that could be told; None where it has one."""
    if judgement is None:
        return "no cost without an SLO: any machine is cheap that may be as slow as it likes; give --slo"
    if judgement.too_many_failed:
        return f"no cost: {judgement.failed_share:.1%} of the requests failed, more than {MAX_FAILED_SHARE:.0%}"
    if not judgement.holds:
        return "no cost: the SLO does not hold at this load"
    return None
