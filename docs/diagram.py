"""The state diagram as SVG, drawn from the table of legal moves."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 860, 400
BOX_WIDTH, BOX_HEIGHT = 116, 40
PLACES = {
    None: (30, 200),
    "PENDING": (170, 200),
    "RUNNING": (490, 200),
    "SUCCESS": (780, 100),
    "FAILED": (780, 300),
    "CANCELLED": (330, 350),
}
COLOURS = {
    "PENDING": "#fff3cd", "RUNNING": "#cfe8ff", "SUCCESS": "#d3f2d8", "FAILED": "#fbd5d5", "CANCELLED": "#e6e0ee",
}  # fmt: skip
BENDS = {("RUNNING", "PENDING"): -95}
"""How far below its straight line an arrow runs; what is not listed runs straight."""

STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2430; text-anchor: middle }
.name { font-weight: 600 }
.box { stroke: #4a5162; stroke-width: 1.3 }
.move { fill: none; stroke: #4a5162; stroke-width: 1.4; marker-end: url(#arrow) }
.label { font-size: 11.5px; fill: #39404f; paint-order: stroke; stroke: #ffffff; stroke-width: 5px }"""


def draw(moves: Iterable[Any]) -> str:
    names: dict[tuple[Any, str], list[str]] = defaultdict(list)
    for move in moves:
        names[move.source and str(move.source), str(move.target)].append(move.name)
    arrows = [arrow(source, target, labels) for (source, target), labels in names.items()]
    boxes = [box(name) for name in PLACES if name]
    return "\n".join([head(names), *arrows, *boxes, start(), "</svg>", ""])


def head(names: dict[tuple[Any, str], list[str]]) -> str:
    told = "; ".join(
        f"{source or 'new'} to {target}: {', '.join(labels)}" for (source, target), labels in names.items()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img">\n'
        f"<title>The life of a task</title>\n<desc>{escape(told)}</desc>\n<style>\n{STYLE}\n</style>\n"
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#4a5162"/></marker></defs>\n'
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="8" fill="#ffffff"/>'
    )


def box(name: str) -> str:
    x, y = PLACES[name]
    corner = f'x="{x - BOX_WIDTH // 2}" y="{y - BOX_HEIGHT // 2}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}"'
    return (
        f'<rect class="box" {corner} rx="8" fill="{COLOURS[name]}"/>'
        f'<text class="name" x="{x}" y="{y + 4}">{name}</text>'
    )


def start() -> str:
    x, y = PLACES[None]
    return f'<circle cx="{x}" cy="{y}" r="6" fill="#4a5162"/>'


def arrow(source: str | None, target: str, labels: list[str]) -> str:
    if source == target:
        return loop(target, labels)
    (x1, y1), (x2, y2) = PLACES[source], PLACES[target]
    bend = BENDS.get((str(source), target), 0)
    x1, y1 = edge(x1, y1, x2, y2, bend) if source else (x1 + 6, y1)
    x2, y2 = edge(x2, y2, x1, y1, bend)
    middle_x, middle_y = (x1 + x2) / 2, (y1 + y2) / 2
    path = f'<path class="move" d="M{x1:g} {y1:g} Q{middle_x:g} {middle_y + 2 * bend:g} {x2:g} {y2:g}"/>'
    return path + label(middle_x, middle_y + bend, labels)


def edge(x: float, y: float, to_x: float, to_y: float, bend: int) -> tuple[float, float]:
    """Where an arrow leaves or meets a box: on the side that faces the other, or on top where it bends up."""
    if bend:
        return x, y - BOX_HEIGHT / 2
    if y == to_y or abs(to_x - x) > 200:
        return x + (BOX_WIDTH / 2 if to_x > x else -BOX_WIDTH / 2), y
    return x + (20 if to_x > x else -20), y + (BOX_HEIGHT / 2 if to_y > y else -BOX_HEIGHT / 2)


def loop(name: str, labels: list[str]) -> str:
    away = 30 if PLACES[name][0] > PLACES["CANCELLED"][0] else -30
    x, y = PLACES[name][0] + away, PLACES[name][1] + BOX_HEIGHT / 2
    path = f'<path class="move" d="M{x + 10} {y} C{x + 30} {y + 50} {x - 30} {y + 50} {x - 10} {y}"/>'
    return path + label(x, y + 52, labels)


def label(x: float, y: float, labels: list[str]) -> str:
    """In the middle of its arrow, which the letters' own rim keeps clear of."""
    lines = [part for text in labels for part in wrapped(text)]
    top = y + 4 - 6.5 * (len(lines) - 1)
    return "".join(
        f'<text class="label" x="{x:g}" y="{top + 13 * n:g}">{escape(line)}</text>' for n, line in enumerate(lines)
    )


def wrapped(text: str, width: int = 24) -> list[str]:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + len(word) >= width:
            lines.append(line)
            line = ""
        line = f"{line} {word}".strip()
    return [*lines, line]
