"""The picture: slots over time for both ways of batching on one axis, a colour for each request, grey where a slot is held empty."""

import colorsys
from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from services.cli.demo_batching.measured import Measured
from services.cli.demo_batching.timeline import Stretch

WIDTH = 1600
LEFT, RIGHT = 30, 30
_AXIS_HEIGHT = 90
_HEADING_HEIGHT = 58
_GAP = 30
_PANEL_HEIGHT = 260
_MIN_ROW, _MAX_ROW = 5, 30
_TEXT, _SMALL_TEXT = 27, 17
_INK, _FAINT, _PAPER, _HELD, _HATCH = "#1f2328", "#59636e", "#ffffff", "#e4e6e9", "#b3b8bf"
_HATCH_STEP = 9
_GOLDEN = 0.618033988749895
_TICKS_AT_MOST = 10

Box = tuple[float, float, float, float]


def draw(runs: Sequence[Measured], path: Path) -> None:
    """Writes a PNG with one panel for each run."""
    num_slots = max(run.timeline.num_slots for run in runs)
    row = min(_MAX_ROW, max(_MIN_ROW, _PANEL_HEIGHT // num_slots))
    panel = _HEADING_HEIGHT + row * num_slots + _GAP
    sheet = _Sheet(panel * len(runs) + _AXIS_HEIGHT, max(run.timeline.end_us for run in runs))
    for number, run in enumerate(runs):
        sheet.panel(run, panel * number, row)
    sheet.axis(panel * len(runs))
    path.parent.mkdir(parents=True, exist_ok=True)
    sheet.image.save(path, optimize=True)


def colour(request: int) -> tuple[int, int, int]:
    """Neighbours are far apart on the wheel; the same request has the same colour in each panel."""
    red, green, blue = colorsys.hls_to_rgb(request * _GOLDEN % 1, 0.50 + 0.12 * (request % 3 - 1), 0.62)
    return round(red * 255), round(green * 255), round(blue * 255)


def tick_s(end_s: float) -> float:
    """Distance of the marks on the axis: 1, 2 or 5 times a power of ten, so that there are at most ten."""
    power = 10.0**-3
    while True:
        for step in (1, 2, 5):
            if end_s / (step * power) <= _TICKS_AT_MOST:
                return step * power
        power *= 10


class _Sheet:
    """The image, and what is drawn on it."""

    def __init__(self, height: int, end_us: int) -> None:
        self.image = Image.new("RGB", (WIDTH, height), _PAPER)
        self._draw = ImageDraw.Draw(self.image)
        self._font = ImageFont.load_default(_TEXT)
        self._small = ImageFont.load_default(_SMALL_TEXT)
        self._end_us = end_us

    def panel(self, run: Measured, top: int, row: int) -> None:
        """One run: a line of figures, and a row for each slot."""
        words = (
            f"{run.mode} batching: slots {run.timeline.utilization:.0%} used, {run.tokens_per_s:.0f} tokens/s, "
            f"TTFT p99 {run.ttft_s(99):.1f} s, done after {run.wall_s:.1f} s"
        )
        self._draw.text((LEFT, top + _HEADING_HEIGHT - 10), words, _INK, self._font, anchor="ls")
        first = top + _HEADING_HEIGHT
        for stretch in run.timeline.stretches:
            self._stretch(stretch, first + row * stretch.slot, row)
        end = self._x(run.timeline.end_us)
        self._draw.line((end, first - 4, end, first + row * run.timeline.num_slots + 4), _INK, 3)

    def axis(self, top: int) -> None:
        """Seconds, and what grey means."""
        self._draw.line((LEFT, top, WIDTH - RIGHT, top), _FAINT, 2)
        end_s = self._end_us / 1e6
        step_s = tick_s(end_s)
        for number in range(int(end_s / step_s) + 1):
            x = self._x(number * step_s * 1e6)
            self._draw.line((x, top, x, top + 8), _FAINT, 2)
            self._draw.text((x, top + 12), f"{number * step_s:g} s", _FAINT, self._small, anchor="ma")
        box = (LEFT, top + 50, LEFT + 46, top + 74)
        self._held(box)
        words = "a slot that is held while it computes nothing; each colour is one request, the same above and below"
        self._draw.text((box[2] + 12, box[3] - 3), words, _INK, self._small, anchor="ls")

    def _stretch(self, stretch: Stretch, top: int, row: int) -> None:
        box = (self._x(stretch.begin_us), top + 1, self._x(stretch.end_us), top + row - 1)
        if stretch.request is None:
            self._held(box)
            return
        self._draw.rectangle(box, colour(stretch.request), _PAPER)
        label = str(stretch.request + 1)
        if row > _SMALL_TEXT and box[2] - box[0] > self._small.getlength(label) + 6:
            middle = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
            self._draw.text(middle, label, _PAPER, self._small, anchor="mm")

    def _held(self, box: Box) -> None:
        """Grey, hatched from the lower left to the upper right."""
        left, top, right, bottom = (round(side) for side in box)
        if right <= left:
            return
        patch = Image.new("RGB", (right - left, bottom - top), _HELD)
        hatch = ImageDraw.Draw(patch)
        for start in range(-patch.height, patch.width, _HATCH_STEP):
            hatch.line((start, patch.height, start + patch.height, 0), _HATCH, 2)
        self.image.paste(patch, (left, top))

    def _x(self, at_us: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * at_us / max(self._end_us, 1)
