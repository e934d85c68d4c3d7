"""I8, hygiene: what workers hold does not grow, they leave nothing open, and they report no error without a cause."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from uuid import UUID

STARTING_SECONDS = 15.0
"""A supervisor that starts holds less, and on a busy machine for a while."""
LONG_LIFE_SECONDS = 30.0
MOST_GROWTH = 1.1
SLACK = {"open files": 4, "threads": 1, "KiB of memory": 4096}
ERROR = re.compile(r"^\d\d:\d\d:\d\d (?:ERROR|CRIT) +(.*)")
CHILD = r"child \S+(?:, alone with one task,)?"
EXPLAINED = (
    re.compile(rf"{CHILD} ended: its process was killed by SIGKILL$"),  # by the nemesis
    re.compile(rf"{CHILD} ended: its process exited with code 3$"),  # by a task
    re.compile(rf"{CHILD} ended: its process exited with code 70$"),  # by its own decision, its leases being lost
    # As the nemesis made it seem, or its own decision did.
    re.compile(r"failed +\w+ .* CRASHED: .* ran alone.* its process (was killed by SIGKILL|exited with code (3|70))\."),
    re.compile(r"failed +(return_unstorable|overrun|end_slowly) "),
    re.compile(r"child \S+ hangs: "),  # in a write to a log that nobody reads
    re.compile(r"(task_finished|signals) of \S+ could not be sent"),  # while the database was away
    re.compile(r"signals may not have been sent for \d+ tasks"),  # by a process that the nemesis killed
)


FAILED_ROW = re.compile(r"(?:failed +work ([0-9a-f-]{18}) |tests\.soak\.tasks\.work ([0-9a-f-]{18})\S+ fails: )")


@dataclass(frozen=True, slots=True)
class Sample:
    """Resources that one supervisor held at one moment."""

    at: float
    name: str
    pid: int
    held: dict[str, int]


def sample(name: str, pid: int, at: float) -> Sample | None:
    with suppress(OSError, KeyError):  # one that has just ended holds nothing
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8").splitlines()
        status = dict(line.split(":", 1) for line in lines)
        held = {
            "open files": len(list(Path(f"/proc/{pid}/fd").iterdir())),
            "threads": int(status["Threads"]),
            "KiB of memory": int(status["VmRSS"].split()[0]),
        }
        return Sample(at, name, pid, held)
    return None


def growth(samples: Iterable[Sample]) -> Iterator[tuple[Sample, str, float, float]]:
    """Of each supervisor that lived long: what it held early in its life and late, as the median of a third."""
    lives: dict[int, list[Sample]] = defaultdict(list)
    for one in samples:
        lives[one.pid].append(one)
    for whole in lives.values():
        life = [one for one in whole if one.at - whole[0].at >= STARTING_SECONDS]
        third = len(life) // 3
        if third and life[-1].at - life[0].at >= LONG_LIFE_SECONDS:
            for what in life[0].held:
                early, late = (median(one.held[what] for one in part) for part in (life[:third], life[-third:]))
                yield life[0], what, early, late


def grown(samples: Iterable[Sample]) -> list[str]:
    return [
        f"I8 {one.name} grew from {early:g} to {late:g} {what}"
        for one, what, early, late in growth(samples)
        if late > early * MOST_GROWTH + SLACK[what]
    ]


def unexplained(lines: Iterable[str], hostile: Iterable[UUID] = ()) -> list[str]:
    """Errors that a worker reports and that nobody had caused."""
    ids = {str(task)[:18] for task in hostile}
    errors = [found[1] for line in lines if (found := ERROR.match(line))]
    return [f"I8 unexplained: {error[:300]}" for error in errors if not is_explained(error, ids)]


def is_explained(error: str, hostile: set[str]) -> bool:
    """By what the nemesis or a task did, or as the failure of a hostile row."""
    row = FAILED_ROW.match(error)
    return any(one.match(error) for one in EXPLAINED) or bool(row and (row[1] or row[2]) in hostile)


def left_open(connections: int, budget: int, transactions: int, dead_rows: int) -> list[str]:
    """At the end, with all workers at rest. A vacuum leaves dead rows only to transactions that still see them."""
    complaints = [f"I8 {connections} connections, {budget} budgeted"] if connections > budget else []
    complaints += [f"I8 {transactions} transactions left open"] if transactions else []
    return complaints + ([f"I8 {dead_rows} dead rows that no vacuum can remove"] if dead_rows else [])
