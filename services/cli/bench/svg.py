"""Line charts and timelines as SVG text, coloured by the page's own style sheet, so that they suit light and dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 640, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 16, 28, 44
_TICKS = 7


@dataclass(frozen=True, slots=True)
class Line:
    """A named line through points; its colour is that of class `c0`, `c1`, ... in the order of lines."""

    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Mark:
    """A vertical line with a word beside it."""

    at: float
    name: str


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps values from 0 to `most` onto pixels."""

    most: float
    begin_px: float
    end_px: float

    def px(self, value: float) -> float:
        share = value / self.most
        return round(self.begin_px + share * (self.end_px - self.begin_px), 1)

    def ticks(self) -> list[float]:
        """Round numbers, from three to eight of them."""
        rough = self.most / _TICKS
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * 0.999)
        return [step * place for place in range(math.floor(self.most / step + 1e-9) + 1)]


def chart(title: str, x_name: str, y_name: str, lines: Sequence[Line], marks: Sequence[Mark] = ()) -> str:
    """A line chart with both axes from zero; nothing but a word where there is no point."""
    points = [point for line in lines for point in line.points]
    if not points:
        return f"<p>{escape(title)}: nothing to draw.</p>"
    across = Scale(max([x for x, _ in points] + [mark.at for mark in marks]) or 1.0, _LEFT, WIDTH - _RIGHT)
    up = Scale(max(y for _, y in points) * 1.05 or 1.0, HEIGHT - _BOTTOM, _TOP)
    body = [*_axes(across, up, x_name, y_name)]
    for number, line in enumerate(lines):
        path = " ".join(f"{across.px(x)},{up.px(y)}" for x, y in line.points)
        body.append(f'<polyline class="line c{number}" points="{path}"/>')
        if len(line.points) <= 20:
            body += [
                f'<circle class="dot c{number}" cx="{across.px(x)}" cy="{up.px(y)}" r="3"/>' for x, y in line.points
            ]
        body.append(f'<text class="f{number}" x="{_LEFT + 8 + 130 * number}" y="18">{escape(line.name)}</text>')
    for mark in marks:
        x = across.px(mark.at)
        body.append(f'<line class="mark" x1="{x}" x2="{x}" y1="{_TOP}" y2="{HEIGHT - _BOTTOM}"/>')
        body.append(f'<text x="{x - 4}" y="{_TOP + 12}" text-anchor="end">{escape(mark.name)}</text>')
    return framed(title, HEIGHT, body)


def _axes(across: Scale, up: Scale, x_name: str, y_name: str) -> list[str]:
    floor, middle = HEIGHT - _BOTTOM, (_TOP + HEIGHT - _BOTTOM) / 2
    body = across_axis(across, x_name, floor, floor)
    for tick in up.ticks():
        y = up.px(tick)
        body.append(f'<line class="grid" x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y}" y2="{y}"/>')
        body.append(f'<text x="{_LEFT - 6}" y="{y + 4}" text-anchor="end">{tick:,g}</text>')
    body.append(
        f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{escape(y_name)}</text>'
    )
    return body


def across_axis(across: Scale, x_name: str, floor_px: float, grid_px: float) -> list[str]:
    """The horizontal axis; its grid lines are so long."""
    body = []
    for tick in across.ticks():
        x = across.px(tick)
        body.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{floor_px}" y2="{floor_px - grid_px + _TOP}"/>')
        body.append(f'<text x="{x}" y="{floor_px + 16}" text-anchor="middle">{tick:,g}</text>')
    middle = (across.begin_px + across.end_px) / 2
    body.append(f'<text x="{middle}" y="{floor_px + 36}" text-anchor="middle">{escape(x_name)}</text>')
    return body


def framed(title: str, height: float, body: Sequence[str]) -> str:
    """A figure with its title."""
    return (
        f"<figure><figcaption>{escape(title)}</figcaption>"
        f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img" aria-label="{escape(title)}">{"".join(body)}</svg></figure>'
    )


@dataclass(frozen=True, slots=True)
class Bar:
    """One request of a timeline, in seconds; `first_s` is None where no token came."""

    begin_s: float
    first_s: float | None
    end_s: float
    failed: bool


def timeline(title: str, bars: Sequence[Bar]) -> str:
    """A row for each request: waiting, then answering; failures in a colour of their own."""
    if not bars:
        return f"<p>{escape(title)}: nothing to draw.</p>"
    row_px = max(min(300 / len(bars), 8.0), 1.0)
    floor_px = _TOP + row_px * len(bars)
    across = Scale(max(bar.end_s for bar in bars) or 1.0, _LEFT, WIDTH - _RIGHT)
    body = across_axis(across, "seconds", floor_px, floor_px)
    for number, bar in enumerate(bars):
        y, thick = round(_TOP + row_px * number, 1), round(row_px * 0.8, 1)
        first_s = bar.end_s if bar.first_s is None else bar.first_s
        for begin_s, end_s, kind in ((bar.begin_s, first_s, "wait"), (first_s, bar.end_s, "answer")):
            x, width = across.px(begin_s), round(max(across.px(end_s) - across.px(begin_s), 0.0), 1)
            name = "failed" if bar.failed else kind
            body.append(f'<rect class="{name}" x="{x}" y="{y}" width="{width}" height="{thick}"/>')
    return framed(title, floor_px + _BOTTOM, body)
