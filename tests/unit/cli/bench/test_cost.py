import pytest

from services.cli.bench.cost import cost, why_no_cost
from services.cli.bench.slo import Slo
from tests.unit.cli.bench.records import record, run, run_of_ttfts


def test_cost_is_the_price_of_the_time_over_what_was_answered_in_it():
    """36 per hour is 0.01 a second: 10 s cost 0.1, for 4 requests of 10 tokens in and 5 out, of which one failed."""
    answered = [record(n, messages=((1.0, 1), (2.0, 4))) for n in range(4)]
    found = cost(36.0, [run(*answered, record(9, status="failed"), duration_s=10.0)])
    assert found.per_request == pytest.approx(0.025)
    assert found.per_million_input_tokens == pytest.approx(0.1 / 40 * 1e6)
    assert found.per_million_output_tokens == pytest.approx(0.1 / 20 * 1e6)
    assert found.lines()[0] == "cost: 0.025 per request"


def test_repeats_are_paid_for_and_answered_together():
    """Twice the time, twice the answers: the same cost."""
    one = run_of_ttfts(0.1, 0.2)
    assert cost(10.0, [one, one]) == cost(10.0, [one])


@pytest.mark.parametrize(
    ("slo", "ran", "words"),
    [
        (None, run_of_ttfts(0.1), "without an SLO"),
        ("ttft_p99=1ms", run_of_ttfts(0.1), "does not hold"),
        ("ttft_p50=1s", run_of_ttfts(*[0.1] * 97, failed=3), "3.0% of the requests failed"),
        ("ttft_p50=1s", run_of_ttfts(*[0.1] * 99, failed=1), None),
    ],
)
def test_no_cost_is_told_without_a_service_to_pay_for(slo, ran, words):
    """The reason takes its place."""
    why = why_no_cost(Slo.of(slo).judge([ran]) if slo else None)
    assert (why is None) if words is None else (words in why)
