"""What is told of one run."""

import pytest

from tests.unit.cli.demo_batching.runs import measured


def test_figures_follow_from_what_clients_saw():
    """40 tokens in 10 s; first tokens after 1 s and 2 s; 3.6 an hour is 0.01 for 10 s."""
    run = measured("static")
    assert (run.num_tokens, run.wall_s, run.tokens_per_s) == (40, 10.0, 4.0)
    assert (run.ttft_s(50), run.ttft_s(99)) == (1.0, 2.0)
    assert run.cost_per_million(3.6) == pytest.approx(0.01 / 40 * 1e6)


def test_times_begin_when_all_have_arrived():
    """The gate held them up for half a second, which is nobody's doing."""
    run = measured("static", opened_s=0.5)
    assert (run.wall_s, run.ttft_s(50), run.ttft_s(99)) == (9.5, 0.5, 1.5)


def test_the_wait_for_the_first_arrival_is_not_counted():
    """In a Poisson run it may be long, and it is the same for any server."""
    run = measured("static", intended_s=0.5)
    assert (run.wall_s, run.ttft_s(50)) == (9.5, 0.5)
