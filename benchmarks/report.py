"""Figures as a table, as verdicts on what we aim at, and as a chart."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from html import escape
from pathlib import Path

from .contenders import CEILING, OURS
from .measures import Figure

DRAIN = "drain, 2 processes"
PICK_UP = "pick-up, p50"
WHOLE_WAL = "WAL a task, enqueue to completion"
BEST = "the best neighbour"
Figures = dict[tuple[str, str], float]


def medians(figures: list[Figure]) -> Figures:
    gathered: dict[tuple[str, str], list[float]] = {}
    for figure in figures:
        gathered.setdefault((figure.measure, figure.who), []).append(figure.value)
    return {key: statistics.median(values) for key, values in gathered.items()}


def derived(values: Figures) -> Figures:
    """What follows from the figures that there are."""
    parts = [values.get((part, OURS.name)) for part in ("WAL a task, enqueue", f"{DRAIN}: WAL a task")]
    found = {} if None in parts else {(WHOLE_WAL, OURS.name): sum(part for part in parts if part)}
    waits = [value for (measure, who), value in values.items() if measure == PICK_UP and who != OURS.name]
    return values | found | ({(PICK_UP, BEST): min(waits)} if waits else {})


def table(figures: list[Figure]) -> str:
    """One line a measure, one column a contender."""
    values, units = medians(figures), {figure.measure: figure.unit for figure in figures}
    names = list(dict.fromkeys(figure.who for figure in figures))
    lines = ["| measure | unit | " + " | ".join(names) + " |", "|---|---|" + "---:|" * len(names)]
    for measure, unit in units.items():
        cells = [shown(values.get((measure, name))) for name in names]
        lines.append(f"| {measure} | {unit} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# What we aim at: (what, above, below, at least).
RATIOS = [
    ("drain against the ceiling", (DRAIN, OURS.name), (DRAIN, CEILING.name), 0.4),
    ("drain against django-tasks-db", (DRAIN, OURS.name), (DRAIN, "django-tasks-db"), 20),
    ("drain against django-ox", (DRAIN, OURS.name), (DRAIN, "django-ox"), 20),
    ("drain against procrastinate", (DRAIN, OURS.name), (DRAIN, "procrastinate"), 18),
    ("drain against oban", (DRAIN, OURS.name), (DRAIN, "oban"), 3.5),
    ("drain against pgqueuer", (DRAIN, OURS.name), (DRAIN, "pgqueuer"), 1),
    (
        "drain with a million future tasks",
        ("drain, 1,000,000 future", OURS.name),
        ("drain, no backlog", OURS.name),
        0.8,
    ),
    (
        "drain with a million more urgent future tasks",
        ("drain, 1,000,000 future, more urgent", OURS.name),
        ("drain, no backlog", OURS.name),
        0.8,
    ),
    ("drain with a million finished", ("drain, 1,000,000 finished", OURS.name), ("drain, no backlog", OURS.name), 0.9),
    ("drain under a pinned horizon", ("long drain, pinned horizon", OURS.name), ("long drain", OURS.name), 0.7),
    ("claim, normal against after a burst", ("claim", OURS.name), ("claim after a burst", OURS.name), 1 / 3),
    (
        "enqueue one by one against django-tasks-db",
        ("enqueue, one by one", OURS.name),
        ("enqueue, one by one", "django-tasks-db"),
        1,
    ),
    ("enqueue at once against one by one", ("enqueue, at once", OURS.name), ("enqueue, one by one", OURS.name), 20),
    ("pick-up, the best neighbour's against ours", (PICK_UP, BEST), (PICK_UP, OURS.name), 1 / 1.5),
]
SQLITE = "drain on SQLite, 1 process"
RATIOS.append(("drain on SQLite against django-tasks-db", (SQLITE, OURS.name), (SQLITE, "django-tasks-db"), 2))
# (measure, at most).
BOUNDS = [
    (PICK_UP, 4),
    ("pick-up, p99", 15),
    (f"{DRAIN}: worker CPU", 0.12),
    (f"{DRAIN}: server CPU", 0.06),
    (WHOLE_WAL, 2100),
    (f"{DRAIN}: largest process", 90),
    ("idle CPU", 1),
    ("10,000 schedules due at once", 5),
    ("10,000 schedules due at once on SQLite", 5),
]


def verdicts(figures: list[Figure]) -> Iterator[str]:
    """Each aim that these figures can tell about, and whether it is met."""
    values = derived(medians(figures))
    for what, above, below, least in RATIOS:
        if above in values and below in values:
            ratio = values[above] / values[below]
            yield f"{'met   ' if ratio >= least else 'MISSED'}  {what}: {ratio:.2f} x (at least {least:.2g})"
    for measure, most in BOUNDS:
        if (value := values.get((measure, OURS.name))) is not None:
            yield f"{'met   ' if value <= most else 'MISSED'}  {measure}: {shown(value)} (at most {most:g})"


def write(folder: Path, figures: list[Figure]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.json").write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
    (folder / "table.md").write_text(table(figures) + "\n")


def read(folder: Path) -> list[Figure]:
    return [Figure(**figure) for figure in json.loads((folder / "figures.json").read_text())]


BAR, GAP, LEFT, WIDTH = 22, 10, 150, 720

# An image does not know the colours of its page: it brings its own paper, and is readable on any.
STYLE = """<style>
.paper { fill: #ffffff } text { fill: #1f2430 } .ours { fill: #0c7bb3 } .other { fill: #9aa5ae }
@media (prefers-color-scheme: dark) {
.paper { fill: #1a1d24 } text { fill: #e6e9ef } .ours { fill: #4fb3e8 } .other { fill: #6b7680 }
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
