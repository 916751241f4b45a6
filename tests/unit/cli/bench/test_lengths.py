import random
from statistics import median

import pytest

from services.cli.bench.lengths import Lengths
from services.runtime.lifecycle import BadSetting


@pytest.mark.parametrize("text", ["128", "uniform:64:256", "lognormal:80:0.7:16:256"])
def test_a_length_is_written_as_it_is_read(text):
    """What a result says about its lengths can be given to the next run."""
    assert str(Lengths.of(text)) == text


@pytest.mark.parametrize(
    "text", ["", "0", "-3", "many", "uniform:8", "uniform:9:8", "lognormal:80:0.7:16", "lognormal:0:1:1:2", "zipf:1:2"]
)
def test_what_is_no_length_is_refused(text):
    """The words say which forms there are, or what is wrong with the numbers."""
    with pytest.raises(BadSetting, match=r"length"):
        Lengths.of(text)


def test_a_fixed_length_is_always_the_same():
    """No dice."""
    assert {Lengths.of("7").draw(random.Random(seed)) for seed in range(20)} == {7}


def test_a_uniform_length_takes_every_value_up_to_both_ends():
    """The ends belong to it."""
    rng = random.Random(1)
    assert {Lengths.of("uniform:3:6").draw(rng) for _ in range(200)} == {3, 4, 5, 6}


def test_a_log_normal_length_is_clipped_and_has_the_median_that_is_asked_for():
    """What lies beyond an end becomes that end: about 1 % below 16 and 5 % above 256 (z = -2.30 and 1.66)."""
    rng = random.Random(1)
    drawn = [Lengths.of("lognormal:80:0.7:16:256").draw(rng) for _ in range(20_000)]
    assert (min(drawn), max(drawn)) == (16, 256)
    assert median(drawn) == pytest.approx(80, abs=2)
    assert drawn.count(256) / len(drawn) == pytest.approx(0.048, abs=0.006)
    assert drawn.count(16) / len(drawn) == pytest.approx(0.0115, abs=0.004)
