"""Statistics: how attempts ended, by queue and function, and by lane where that matters. Workers add; others read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import accumulate
from operator import add as add_up
from typing import Any, NamedTuple

from django.db import connections, transaction
from django.db.models import Sum

from ...clock import Now, now
from ...models import BacklogStat, LaneStat, TaskStat, TaskTotal
from ...utc import adapted
from ..database import database
from ..engines import engine_for

BOUNDS = (0.01, 0.05, 0.25, 1.0, 5.0, 30.0, 300.0, 3600.0)
"""Seconds, each the most that its bucket holds. The last bucket has no bound."""

# Fixed, so that counts of all workers and times add up.
BUCKETS = ("10ms", "50ms", "250ms", "1s", "5s", "30s", "5m", "1h", "more")
RAN = tuple(f"ran_{name}" for name in BUCKETS)
WAITED = tuple(f"waited_{name}" for name in BUCKETS)
"""The columns that hold how many attempts ran, or waited, for so long; each counts its own bucket alone."""

KEEP, KEEP_LANES, KEEP_BACKLOG = timedelta(days=8), timedelta(hours=1), timedelta(hours=25)
MOST_BACKLOGS, MOST_DUE, LONGEST_WAIT = 50, 2**31 - 1, 1e9
RECENT = timedelta(minutes=10)  # the time whose attempts say how a queue or a function does now
FEWEST_FAILURES = 5  # a function with fewer failures within RECENT is not called failing
KEY = ("queue", "func_path")
ADDED = ("completed", "retried", "failed", "seconds", "wait_seconds", *RAN, *WAITED)
ADDED_TO_LANE = ("completed", "failed")
COUNTS = ("completed", "retried", "failed")
MOST_FAILING = 5  # failing functions whose beginning is looked for
OUTCOMES = (*COUNTS, "released", "cancelled", "lost", "dropped")
ENDED = frozenset({*COUNTS, "lost"})
"""Outcomes of attempts that ended by themselves: neither released nor cancelled, and no second report about one."""

SUMMED = (*OUTCOMES, "seconds", "wait_seconds")


def bucket_of(seconds: float) -> int:
    return bisect_left(BOUNDS, seconds)


@dataclass(slots=True)
class Stat:
    """Attempts of one function in one queue, and of one lane if that has a breaker: how many ended how."""

    queue: str
    func_path: str
    completed: int = 0
    retried: int = 0
    failed: int = 0
    seconds: float = 0.0
    wait_seconds: float = 0.0
    ran: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))
    waited: list[int] = field(default_factory=lambda: [0] * len(BUCKETS))  # how many fell into each bucket
    lane: str = ""
    lost: int = 0
    released: int = 0
    cancelled: int = 0
    dropped: int = 0

    @classmethod
    def of_attempt(cls, key: tuple[str, str, str], outcome: str, ran: float, waited: float) -> Stat:
        stat = cls(*key[:2], lane=key[2])
        stat.note(outcome, ran, waited)
        return stat

    def note(self, outcome: str, ran: float, waited: float) -> None:
        """Count one attempt. `ran` is 0 if nobody knows: of a process that died, say."""
        setattr(self, outcome, getattr(self, outcome) + 1)
        self.seconds += ran
        if outcome in ENDED:
            self.wait_seconds += waited
            self.waited[bucket_of(waited)] += 1
            if ran:
                self.ran[bucket_of(ran)] += 1

    @property
    def key(self) -> tuple[str, str, str]:
        return self.queue, self.func_path, self.lane

    @property
    def attempts(self) -> int:
        """How many ended by themselves: neither released nor cancelled, and no second report about one."""
        return self.completed + self.retried + self.lost + self.failed

    def add(self, other: Stat) -> None:
        for name in SUMMED:
            if value := getattr(other, name):
                setattr(self, name, getattr(self, name) + value)
        self.ran = [*map(add_up, self.ran, other.ran)]
        self.waited = [*map(add_up, self.waited, other.waited)]

    @property
    def values(self) -> tuple[Any, ...]:
        """In the order of ADDED. For those who read statistics, a lost attempt is one that is retried."""
        counts = (self.completed, self.retried + self.lost, self.failed, self.seconds, self.wait_seconds)
        return (*counts, *self.ran, *self.waited)


def add_stats(stats: Iterable[Stat], *, backend: str = "default") -> None:
    """Add the counts to the current minute of the queue's clock and to the totals, all or none."""
    using, functions, lanes = database(backend), dict[tuple[str, str], Stat](), dict[str, list[int]]()
    for stat in stats:
        key = (stat.queue, stat.func_path)
        functions.setdefault(key, Stat(*key)).add(stat)
        if stat.lane:
            counts = lanes.setdefault(stat.lane, [0, 0])
            counts[0] += stat.completed
            counts[1] += stat.attempts - stat.completed
    if not functions:
        return
    minute = adapted(now(using).replace(second=0, microsecond=0), connections[using])
    # In the order of their keys, so that two workers adding at once cannot deadlock.
    in_all = [(*key, *functions[key].values) for key in sorted(functions)]
    by_lane = [(minute, lane, *lanes[lane]) for lane in sorted(lanes)]
    engine = engine_for(using)
    with transaction.atomic(using=using):
        engine.add_counts(TaskStat._meta.db_table, ("minute", *KEY), ADDED, [(minute, *row) for row in in_all])
        engine.add_counts(TaskTotal._meta.db_table, KEY, ADDED, in_all)
        engine.add_counts(LaneStat._meta.db_table, ("minute", "lane"), ADDED_TO_LANE, by_lane)


def forget_stats(*, backend: str = "default") -> int:
    """Delete statistics that nobody looks at any more. Totals stay: counters never go back."""
    using = database(backend)
    past = TaskStat.objects.using(using).filter(minute__lt=Now() - KEEP)
    of_lanes = LaneStat.objects.using(using).filter(minute__lt=Now() - KEEP_LANES)
    standing = BacklogStat.objects.using(using).filter(minute__lt=Now() - KEEP_BACKLOG)
    return sum(old._raw_delete(old.db) for old in (past, of_lanes, standing))


def add_backlog(queues: Iterable[tuple[str, int, float]], *, backend: str = "default") -> None:
    """Add how queues stand to the current minute: each with its due tasks and how long the first has waited.

    Only the longest ones are kept by name, so a day is bounded. If two workers add to a minute, the first one counts.
    """
    using, found = database(backend), sorted(queues, key=lambda each: -each[1])
    minute = now(using).replace(second=0, microsecond=0)
    total = "", sum(due for _, due, _ in found), max((oldest for *_, oldest in found), default=0.0)
    rows = [
        BacklogStat(minute=minute, queue=name, due=min(due, MOST_DUE), oldest=oldest)
        for name, due, oldest in (total, *found[:MOST_BACKLOGS])
    ]
    BacklogStat.objects.using(using).bulk_create(rows, ignore_conflicts=True)


class Backlog(NamedTuple):
    minute: datetime
    queue: str
    due: int
    oldest: float


def backlogs_since(begin: datetime, using: str, **chosen: Any) -> list[Backlog]:
    """Return how queues stood since then; with `queue=""` the sum of all."""
    rows = BacklogStat.objects.using(using).filter(minute__gte=begin, minute__lte=Now(), **chosen)
    rows = rows.filter(due__gte=0, oldest__range=(0, LONGEST_WAIT))  # an odd row is no reading
    return [Backlog(*row) for row in rows.order_by("minute", "queue").values_list("minute", "queue", "due", "oldest")]


@dataclass(frozen=True, slots=True)
class Counts:
    """How attempts of one function, of one queue or of all ended within a time."""

    func_path: str = ""
    queue: str = ""
    completed: int = 0
    retried: int = 0
    failed: int = 0
    seconds: float = 0.0

    @property
    def attempts(self) -> int:
        return self.completed + self.failures

    @property
    def failures(self) -> int:
        return self.retried + self.failed

    @property
    def mean_seconds(self) -> float | None:
        return self.seconds / self.attempts if self.attempts else None


def counts_since(begin: datetime, using: str, key: str, *keys: str, func_path: str = "") -> list[Counts]:
    """Count the attempts that ended since then by these columns, the busiest first."""
    rows = sums_since(begin, using, key, *keys, columns=(*COUNTS, "seconds"), func_path=func_path)
    return sorted((Counts(**row) for row in rows), key=lambda each: -each.attempts)


@dataclass(frozen=True, slots=True)
class Failing:
    """A function of which at least half of the latest attempts fail: how they ended since it began, and before."""

    func_path: str
    since: datetime
    now: Counts
    before: Counts


def failing_functions(moment: datetime, using: str) -> list[Failing]:
    """Return the functions that fail now, also while all their tasks are still to be retried."""
    recent = counts_since(moment - RECENT, using, "func_path")
    paths = [each.func_path for each in recent if each.failures >= max(FEWEST_FAILURES, each.attempts / 2)]
    return [failing_since(path, moment, using) for path in paths[:MOST_FAILING]]


def failing_since(func_path: str, moment: datetime, using: str) -> Failing:
    """Find the minute since which failures outnumber successes the most, within a day."""
    rows = list(sums_since(moment - timedelta(days=1), using, "minute", func_path=func_path))
    balances = [row["retried"] + row["failed"] - row["completed"] for row in rows]
    sums = list(accumulate(reversed(balances)))[::-1]
    begin = max(range(len(rows)), key=lambda n: (sums[n], n))
    before, since = (
        Counts(func_path, **{name: sum(row[name] for row in part) for name in COUNTS})
        for part in (rows[:begin], rows[begin:])
    )
    return Failing(func_path, rows[begin]["minute"], since, before)


def sums_since(
    begin: datetime,
    using: str,
    key: str,
    *keys: str,
    columns: Sequence[str] = COUNTS,
    func_path: str = "",
    **chosen: Any,
) -> Iterable[dict[str, Any]]:
    """Sum up attempts that ended since then by these columns, ordered by them; of one function, if it is given."""
    # Minutes to come are an odd row's, and may be none that Python can hold.
    stats = TaskStat.objects.using(using).filter(minute__gte=begin, minute__lte=Now(), **chosen)
    if func_path:
        stats = stats.filter(func_path=func_path)
    found: Iterable[dict[str, Any]] = (
        stats.order_by(key, *keys).values(key, *keys).annotate(**{n: Sum(n) for n in columns})
    )
    return found
