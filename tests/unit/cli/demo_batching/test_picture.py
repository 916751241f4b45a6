"""The picture of the slots."""

import numpy as np
import pytest
from PIL import Image

from services.cli.demo_batching.picture import LEFT, RIGHT, WIDTH, colour, draw, tick_s
from tests.unit.cli.demo_batching.runs import measured

STATIC = measured("static")
CONTINUOUS = measured("continuous", end_s=5.0)


@pytest.fixture
def image(tmp_path) -> Image.Image:
    draw((STATIC, CONTINUOUS), tmp_path / "slots.png")
    with Image.open(tmp_path / "slots.png") as opened:
        return opened.convert("RGB")


def columns_of(image: Image.Image, rgb: tuple[int, int, int]) -> list[int]:
    """Where a colour is, from left to right."""
    return np.unique(np.nonzero((np.asarray(image) == rgb).all(axis=2))[1]).tolist()


def test_both_panels_share_one_axis(image):
    """The run of 5 s takes half of the width that the run of 10 s takes: request 0 has all of each."""
    both = columns_of(image, colour(0))
    assert both[0] <= LEFT + 2
    assert both[-1] == pytest.approx(WIDTH - RIGHT, abs=4)
    below = image.crop((0, image.height // 2, image.width, image.height))
    assert columns_of(below, colour(0))[-1] == pytest.approx(LEFT + (WIDTH - LEFT - RIGHT) / 2, abs=4)


def test_held_slots_are_grey_and_hatched(image):
    """From half of the time on in the second slot, in two tones."""
    above = image.crop((0, 0, image.width, image.height // 2 - 40))
    for tone in ((0xE4, 0xE6, 0xE9), (0xB3, 0xB8, 0xBF)):
        where = columns_of(above, tone)
        assert where[0] == pytest.approx(WIDTH / 2, abs=8)
        assert where[-1] == pytest.approx(WIDTH - RIGHT, abs=8)


def test_neighbours_have_colours_that_are_told_apart():
    """Each of 64 requests differs from the next in some channel by a good deal."""
    for request in range(63):
        one, other = colour(request), colour(request + 1)
        assert max(abs(a - b) for a, b in zip(one, other, strict=True)) > 60


@pytest.mark.parametrize(("end_s", "expected"), [(0.004, 0.001), (1, 0.1), (4.6, 0.5), (10, 1), (85, 10), (130, 20)])
def test_the_axis_has_at_most_ten_marks_at_round_seconds(end_s, expected):
    """1, 2 or 5 times a power of ten."""
    assert tick_s(end_s) == pytest.approx(expected)


def test_many_slots_still_fit(tmp_path):
    """64 of them are thin rows, not a taller and taller picture."""
    wide = measured("static")
    wide.timeline.stretches[:] = [
        type(each)(number, each.begin_us, each.end_us, each.request)
        for number in range(64)
        for each in wide.timeline.stretches[:1]
    ]
    draw((wide, wide), tmp_path / "slots.png")
    with Image.open(tmp_path / "slots.png") as opened:
        assert opened.height < 1000
