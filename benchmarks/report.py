"""Figures as a table, and as verdicts on what we aim at."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from .contenders import CEILING, NO_QUEUE, OURS
from .measures import Figure

DRAIN = "drain, 2 processes"
PICK_UP, LATE_PICK_UP = "pick-up, p50", "pick-up, p99"
WHOLE_WAL = "WAL a task, enqueue to completion"
BEST = "the best neighbour"
Figures = dict[tuple[str, str], float]


def medians(figures: list[Figure]) -> Figures:
    """Return the median of the quiet runs; of all runs if none was quiet."""
    quiet: dict[tuple[str, str], list[float]] = {}
    noisy: dict[tuple[str, str], list[float]] = {}
    for figure in figures:
        (noisy if figure.is_noisy else quiet).setdefault((figure.measure, figure.who), []).append(figure.value)
    return {key: statistics.median(values) for key, values in (noisy | quiet).items()}


def derived(values: Figures) -> Figures:
    """Return figures that follow from the measured ones."""
    parts = [values.get((part, OURS.name)) for part in ("WAL a task, enqueue", f"{DRAIN}: WAL a task")]
    found = {} if None in parts else {(WHOLE_WAL, OURS.name): sum(part for part in parts if part)}
    for pick_up in (PICK_UP, LATE_PICK_UP):
        waits = [value for (measure, who), value in values.items() if measure == pick_up and who != OURS.name]
        found |= {(pick_up, BEST): min(waits)} if waits else {}
    return values | found


def rows(figures: list[Figure]) -> list[tuple[str, ...]]:
    """The titles, then a row for each measure, with a column for each contender. A star marks what is noisy."""
    values, last = medians(figures), {figure.measure: figure for figure in figures}
    noisy = {(each.measure, each.who) for each in figures if each.is_noisy}
    noisy -= {(each.measure, each.who) for each in figures if not each.is_noisy}
    names = list(dict.fromkeys(figure.who for figure in figures))
    cells = (
        (shown(values.get((measure, name))) + "*" * ((measure, name) in noisy) for name in names) for measure in last
    )
    titles = ("Measure", "Unit", "Measured on", *names)
    return [
        titles,
        *((each.measure, each.unit, each.date, *row) for each, row in zip(last.values(), cells, strict=True)),
    ]


def table(figures: list[Figure]) -> str:
    titles, *lines = (f"| {' | '.join(row)} |" for row in rows(figures))
    return "\n".join([titles, "|---" * titles.count(" | ") + "|---|", *lines])


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


# What we aim at: (what, above, below, at least).
MINE = OURS.name
ONE, BULK, SQLITE = "enqueue, one by one", "enqueue, lists of 1,000", "drain on SQLite, 1 process"
REAL, NAPS = "real", "growth, threads at tasks of 10 ms: {}"
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
    ("enqueue one by one against pgqueuer", (ONE, MINE), (ONE, "pgqueuer"), 0.93),
    ("enqueue lists of 1,000 against pgqueuer", (BULK, MINE), (BULK, "pgqueuer"), 1.1),
    ("real tasks against their body alone", (REAL, MINE), (REAL, NO_QUEUE.name), 0.7),
    ("real tasks against pgqueuer", (REAL, MINE), (REAL, "pgqueuer"), 1.3),
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
# (measure, at least): of what 32 and 128 threads could do, and of tasks a second.
LEAST = [(NAPS.format(32), 3_200 * 0.92), (NAPS.format(128), 12_800 * 0.85), (SQLITE, 8_000)]
# (measure, at most).
BOUNDS = [
    (f"{DRAIN}: worker CPU", 0.034),
    (f"{DRAIN}: server CPU", 0.046),
    (WHOLE_WAL, 1600),
    (f"{DRAIN}: largest child", 55),
    ("idle CPU", 0.4),
    ("enqueue, 1,000,000 streamed: growth of the process", 32),
    ("10,000 schedules due at once", 5),
    ("10,000 schedules due at once on SQLite", 5),
]


KEPT = (
    "The others delete or keep less of a finished task; ours keeps two events and a result, under a fence and triggers."
)
HOP = "A supervisor hears for all its children, and the claim is on disk before the task starts."
ONE_FLUSH = (
    "Waiting for the disk is the same for all; the rest is Django's layer of tasks, checks of the call, and the guard."
)
ONE_LOCK = "The threads of one process share the interpreter with the loop that claims and records for them."
WHY = {
    "drain against the ceiling": "The ceiling has no guard, no retries and no look-up of functions.",
    "drain against pgqueuer": KEPT,
    "drain against oban": KEPT,
    "enqueue one by one against django-tasks-db": ONE_FLUSH,
    "enqueue one by one against pgqueuer": ONE_FLUSH,
    "enqueue lists of 1,000 against pgqueuer": "Each call is checked against its function, in Python.",
    "pick-up p50, the best neighbour's against ours": HOP,
    "pick-up p99, the best neighbour's against ours": HOP,
    "drain with a million finished": "Finished tasks stay in the table until they are pruned.",
    "drain on SQLite against django-tasks-db": "SQLite has one writer, and our claim and report each write events.",
    NAPS.format(32): ONE_LOCK,
    NAPS.format(128): ONE_LOCK,
    SQLITE: "SQLite has one writer, and our claim and report each write events.",
    f"{DRAIN}: worker CPU": "Two fifths are claims, a quarter each reports and what follows them.",
    f"{DRAIN}: server CPU": KEPT,
    WHOLE_WAL: KEPT,
}
"""Reasons, in a sentence each, why aims are missed."""


def verdicts(figures: list[Figure]) -> Iterator[str]:
    """Each aim that these figures can tell about, whether it is met, and why not."""
    values = derived(medians(figures))
    for what, above, below, least in RATIOS:
        if above in values and below in values:
            ratio = values[above] / values[below]
            yield verdict(what, f"{ratio:.2f} x (at least {least:.2g})", is_met=ratio >= least)
    for measure, least in LEAST:
        if (value := values.get((measure, MINE))) is not None:
            yield verdict(measure, f"{shown(value)} (at least {shown(least)})", is_met=value >= least)
    for measure, most in BOUNDS:
        if (value := values.get((measure, MINE))) is not None:
            yield verdict(measure, f"{shown(value)} (at most {most:g})", is_met=value <= most)


def verdict(what: str, values: str, *, is_met: bool) -> str:
    return f"{'met   ' if is_met else 'MISSED'}  {what}: {values}" + (
        f". {WHY[what]}" if what in WHY and not is_met else ""
    )


def write(folder: Path, figures: list[Figure]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "figures.json").write_text(json.dumps([asdict(figure) for figure in figures], indent=1) + "\n")
    (folder / "table.md").write_text(table(figures) + "\n")


def read(folder: Path) -> list[Figure]:
    return [Figure(**figure) for figure in json.loads((folder / "figures.json").read_text())]
