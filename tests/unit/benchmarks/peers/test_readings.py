"""Readings: what a run comes to."""

import pytest

from benchmarks.peers.readings import is_behind, more_is_better, problem_of, values_of
from services.cli.bench.result import Record, Run


def record(index, first_s, last_s, *, status="ok", turn=0, conversation=None, cached=None):
    return Record(
        index=index,
        conversation=conversation,
        turn=turn,
        intended_s=0.0,
        sent_s=0.0,
        end_s=last_s,
        message_s=[first_s, last_s],
        message_tokens=[1, 10],
        input_tokens=100,
        output_tokens=11,
        asked_tokens=11,
        cached_tokens=cached,
        status=status,
    )


def run(*records, duration_s=2.0):
    return Run(repeat=0, seed=0, duration_s=duration_s, records=list(records))


def test_speed_and_times_of_a_run():
    """22 tokens in 2 s; first tokens after 100 and 300 ms; ten more tokens in 1 and in 0.5 s."""
    assert values_of(run(record(0, 0.1, 1.1), record(1, 0.3, 0.8))) == pytest.approx(
        {
            "output, tokens/s": 11,
            "TTFT p50, ms": 100,
            "TTFT p99, ms": 300,
            "TPOT p50, ms": 50,
            "TPOT p99, ms": 100,
        }
    )


def test_conversations_are_read_turn_by_turn():
    """Time to first token, and what the peer found in its cache where it says so."""
    values = values_of(
        run(
            record(0, 0.4, 1.0, conversation=0, turn=0, cached=0),
            record(1, 0.1, 0.5, conversation=0, turn=1, cached=80),
        )
    )
    assert values["TTFT p50 of turn 1, ms"] == pytest.approx(400)
    assert values["TTFT p50 of turn 2, ms"] == pytest.approx(100)
    assert (values["cached of turn 1, %"], values["cached of turn 2, %"]) == (0, 80)
    assert values["cached prompt tokens, %"] == 40


def test_a_peer_that_is_silent_about_its_cache_has_no_hits_and_no_misses():
    """Not told is not zero."""
    assert not any("cached" in name for name in values_of(run(record(0, 0.1, 1.0))))


def test_a_run_without_an_answer_has_no_values():
    """There is nothing to take a percentile of."""
    assert values_of(run(record(0, 0.1, 0.2, status="failed"))) == {}


def test_a_failed_request_is_a_problem():
    """One is enough: what is left would be a smaller workload than the others had."""
    assert problem_of(run(record(0, 0.1, 1.0))) == ""
    assert problem_of(run(record(0, 0.1, 1.0), record(1, 0.1, 1.0, status="timeout"))).startswith("1 of 2 requests")


@pytest.mark.parametrize(("open_for_s", "duration_s", "behind"), [(60, 89, False), (60, 91, True), (0, 1000, False)])
def test_who_falls_behind_is_not_tried_at_a_higher_rate(open_for_s, duration_s, behind):
    """Only where requests do not wait for answers can one fall behind."""
    assert is_behind(run(record(0, 0.1, 1.0), duration_s=duration_s), open_for_s) is behind


def test_what_is_better():
    """More tokens a second; less time and memory. Hits of a prefix cache are no end in themselves."""
    assert more_is_better("output, tokens/s") is True
    assert [more_is_better(name) for name in ("TTFT p50, ms", "peak memory, MiB")] == [False, False]
    assert more_is_better("cached of turn 2, %") is None
