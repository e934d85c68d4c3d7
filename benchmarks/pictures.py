"""Figures as pictures: everybody's drain as bars, and how ours grows as curves."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from .contenders import OURS
from .measures import Figure
from .report import DRAIN, medians, shown

BAR, GAP, LEFT, WIDTH = 22, 10, 150, 720

# An image does not know the colours of its page: it brings its own paper, and is readable on any.
STYLE = """<style>
.paper { fill: #ffffff } text { fill: #1f2430 } .ours { fill: #0c7bb3 } .other { fill: #9aa5ae }
.line { fill: none; stroke: #0c7bb3; stroke-width: 2 }
@media (prefers-color-scheme: dark) {
.paper { fill: #1a1d24 } text { fill: #e6e9ef } .ours { fill: #4fb3e8 } .other { fill: #6b7680 }
.line { stroke: #4fb3e8 }
}
</style>"""


def chart(figures: list[Figure]) -> str:
    """Tasks a second of everybody's drain, as horizontal bars."""
    rates = {who: value for (measure, who), value in medians(figures).items() if measure == DRAIN}
    most = max(rates.values(), default=1)
    bars = [
        bar(place, who, rate, (WIDTH - LEFT - 80) * rate / most)
        for place, (who, rate) in enumerate(sorted(rates.items(), key=lambda item: -item[1]))
    ]
    height = len(bars) * (BAR + GAP) + GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" font-size="13"',
            '  font-family="system-ui, sans-serif"><title>Tasks a second, two processes</title>',
            STYLE,
            f'<rect class="paper" width="{WIDTH}" height="{height}" rx="8"/>',
            *bars,
            "</svg>\n",
        ]
    )


def bar(place: int, who: str, rate: float, length: float) -> str:
    top = GAP + place * (BAR + GAP)
    kind = "ours" if who == OURS.name else "other"
    return (
        f'<text x="{LEFT - 8}" y="{top + 16}" text-anchor="end">{escape(who)}</text>'
        f'<rect class="{kind}" x="{LEFT}" y="{top}" width="{max(length, 1):.1f}" height="{BAR}" rx="3"/>'
        f'<text x="{LEFT + length + 8:.1f}" y="{top + 16}">{rate:,.0f}/s</text>'
    )


TALL, BOTTOM, TOP, EDGE = 190, 34, 40, 30


def curves(figures: list[Figure]) -> str:
    """How ours grows with processes, threads and queues, side by side."""
    grown: dict[tuple[str, str], list[tuple[str, float]]] = {}
    units = {figure.measure: figure.unit for figure in figures}
    for (measure, who), value in medians(figures).items():
        title, _, by = measure.removeprefix("growth, ").rpartition(": ")
        if measure.startswith("growth, ") and who == OURS.name:
            grown.setdefault((title, units[measure]), []).append((by, value))
    width = WIDTH / max(len(grown), 1)
    drawn = [
        line
        for place, ((title, unit), points) in enumerate(grown.items())
        for line in curve(f"{title}, {unit}", points, place * width, width)
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {TALL}" role="img" font-size="11"',
            '  font-family="system-ui, sans-serif"><title>How the rate and the cost of a claim grow</title>',
            STYLE,
            f'<rect class="paper" width="{WIDTH}" height="{TALL}" rx="8"/>',
            *drawn,
            "</svg>\n",
        ]
    )


def curve(title: str, points: list[tuple[str, float]], left: float, width: float) -> Iterator[str]:
    """One small picture: as many steps to the right as there are points, from zero up to the largest."""
    most = max(value for _, value in points)
    step = (width - 2 * EDGE) / max(len(points) - 1, 1)
    places = [
        (left + EDGE + step * n, TALL - BOTTOM - (TALL - BOTTOM - TOP) * value / most)
        for n, (_, value) in enumerate(points)
    ]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f'<text x="{left + width / 2:.1f}" y="18" text-anchor="middle">{escape(title)}</text>'
    yield f'<polyline class="line" points="{path}"/>'
    for (x, y), (by, value) in zip(places, points, strict=True):
        yield f'<circle class="ours" cx="{x:.1f}" cy="{y:.1f}" r="3"/>'
        yield f'<text x="{x:.1f}" y="{y - 7:.1f}" text-anchor="middle">{shown(value)}</text>'
        yield f'<text x="{x:.1f}" y="{TALL - 12}" text-anchor="middle">{escape(by)}</text>'
