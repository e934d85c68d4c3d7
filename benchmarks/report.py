"""Figures as a table, and as verdicts on what we aim at."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from .contenders import CEILING, OURS
from .measures import Figure

DRAIN = "drain, 2 processes"
PICK_UP, LATE_PICK_UP = "pick-up, p50", "pick-up, p99"
WHOLE_WAL = "WAL a task, enqueue to completion"
BEST = "the best neighbour"
Figures = dict[tuple[str, str], float]


def medians(figures: list[Figure]) -> Figures:
    gathered: dict[tuple[str, str], list[float]] = {}
    for figure in figures:
        gathered.setdefault((figure.measure, figure.who), []).append(figure.value)
    return {key: statistics.median(values) for key, values in gathered.items()}


def derived(values: Figures) -> Figures:
    """Return figures that follow from the measured ones."""
    parts = [values.get((part, OURS.name)) for part in ("WAL a task, enqueue", f"{DRAIN}: WAL a task")]
    found = {} if None in parts else {(WHOLE_WAL, OURS.name): sum(part for part in parts if part)}
    for pick_up in (PICK_UP, LATE_PICK_UP):
        waits = [value for (measure, who), value in values.items() if measure == pick_up and who != OURS.name]
        found |= {(pick_up, BEST): min(waits)} if waits else {}
    return values | found


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
MINE = OURS.name
ONE, BULK, SQLITE = "enqueue, one by one", "enqueue, at once", "drain on SQLite, 1 process"
KIND, NO_BACKLOG = "drain of kinds, no-ops", "drain, no backlog"
RATIOS = [
    ("drain against the ceiling", (DRAIN, MINE), (DRAIN, CEILING.name), 0.65),
    ("drain against pgqueuer", (DRAIN, MINE), (DRAIN, "pgqueuer"), 1.4),
    ("drain against oban", (DRAIN, MINE), (DRAIN, "oban"), 6),
    ("drain against django-tasks-db", (DRAIN, MINE), (DRAIN, "django-tasks-db"), 20),
    ("drain against django-ox", (DRAIN, MINE), (DRAIN, "django-ox"), 20),
    ("drain against procrastinate", (DRAIN, MINE), (DRAIN, "procrastinate"), 18),
    ("drain with 1 kB in and out", ("drain of kinds, 1 kB in, 1 kB out", MINE), (KIND, MINE), 0.6),
    ("drain with receivers", ("drain of kinds, a receiver on each signal", MINE), (KIND, MINE), 0.6),
    ("drain of coroutines", ("drain of kinds, coroutines", MINE), (KIND, MINE), 0.6),
    ("enqueue one by one against django-tasks-db", (ONE, MINE), (ONE, "django-tasks-db"), 1.3),
    ("enqueue one by one against pgqueuer", (ONE, MINE), (ONE, "pgqueuer"), 1),
    ("enqueue at once against pgqueuer", (BULK, MINE), (BULK, "pgqueuer"), 1.2),
    ("enqueue at once against one by one", (BULK, MINE), (ONE, MINE), 40),
    ("pick-up p50, the best neighbour's against ours", (PICK_UP, BEST), (PICK_UP, MINE), 1),
    ("pick-up p99, the best neighbour's against ours", (LATE_PICK_UP, BEST), (LATE_PICK_UP, MINE), 1 / 1.5),
    ("drain with a million future tasks", ("drain, 1,000,000 future", MINE), (NO_BACKLOG, MINE), 0.9),
    (
        "drain with a million more urgent future tasks",
        ("drain, 1,000,000 future, more urgent", MINE),
        (NO_BACKLOG, MINE),
        0.9,
    ),
    ("drain with a million finished", ("drain, 1,000,000 finished", MINE), (NO_BACKLOG, MINE), 0.95),
    ("drain under a pinned horizon", ("long drain, pinned horizon", MINE), ("long drain", MINE), 0.9),
    ("claim, normal against after a burst", ("claim", MINE), ("claim after a burst", MINE), 1 / 3),
    ("drain on SQLite against django-tasks-db", (SQLITE, MINE), (SQLITE, "django-tasks-db"), 15),
]
# (measure, at most).
BOUNDS = [
    (f"{DRAIN}: worker CPU", 0.028),
    (f"{DRAIN}: server CPU", 0.034),
    (WHOLE_WAL, 1600),
    (f"{DRAIN}: largest child", 55),
    ("idle CPU", 0.4),
    ("enqueue, 1,000,000 streamed: growth of the process", 32),
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
