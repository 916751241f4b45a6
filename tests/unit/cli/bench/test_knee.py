import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.cli.bench.knee import knee


def test_the_knee_is_the_last_point_before_the_wall():
    """Flat up to 4, ten times as much at 5: at 4 the curve is 0.75 below the line from end to end."""
    assert knee([1, 2, 3, 4, 5], [1, 1, 1, 1, 10]) == 3


def test_the_knee_of_a_queue_is_where_waiting_takes_over():
    """1 / (1 - load) from 0.1 to 0.9: farthest below the chord where the slopes are equal, 1 - load = 0.3, so at 0.7."""
    loads = [tenth / 10 for tenth in range(1, 10)]
    assert loads[knee(loads, [1 / (1 - load) for load in loads])] == pytest.approx(0.7)


@pytest.mark.parametrize(
    ("loads", "latencies"),
    [([1, 2], [1, 9]), ([1, 2, 3, 4], [1, 2, 3, 4]), ([1, 2, 3], [5, 5, 5]), ([1, 2, 3], [9, 2, 1]), ([], [])],
)
def test_a_curve_that_does_not_bend_has_none(loads, latencies):
    """Too few points, a straight line, no growth."""
    assert knee(loads, latencies) is None


@given(st.lists(st.floats(0.001, 1e3), min_size=3, max_size=12), st.floats(0.1, 100), st.floats(0.1, 100))
def test_units_do_not_move_the_knee(latencies, across, up):
    """Milliseconds or seconds, requests per second or per hour."""
    latencies = sorted(latencies)
    loads = list(range(len(latencies)))
    place = knee(loads, latencies)
    scaled = knee([load * across for load in loads], [latency * up for latency in latencies])
    if place is not None and scaled is not None:
        width, height = len(latencies) - 1, latencies[-1] - latencies[0]

        def below(at):
            return at / width - (latencies[at] - latencies[0]) / height

        assert below(place) == pytest.approx(below(scaled))
