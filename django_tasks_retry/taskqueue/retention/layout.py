"""How history is laid out in a database: by which partitions, and for which backends.

Results, events and steps are partitioned by the id of their task. Tasks are not: one table holds every task that may
still move, with its indexes and unique keys, and an archive table for each period holds those that succeeded. Archives
inherit from the table of tasks, so every query of tasks reads them too. Only this package knows of them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from ...guard.conditions import PARTITIONED, TASK
from ...models import TaskResult
from ...rules.names import first_of
from ..database import fetch
from ..engines import engine_for

NAME = re.compile(r"p(\d{8})(?:_(\d{2}))?")


class Period(StrEnum):
    HOUR = "hour"
    DAY = "day"

    @property
    def length(self) -> timedelta:
        return timedelta(hours=1) if self is Period.HOUR else timedelta(days=1)

    def containing(self, moment: datetime) -> Partition:
        moment = moment.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
        return Partition(moment if self is Period.HOUR else moment.replace(hour=0), self)


@dataclass(frozen=True, slots=True, order=True)
class Partition:
    """One hour or day, in UTC, and the tasks enqueued in it."""

    start: datetime
    period: Period

    @property
    def end(self) -> datetime:
        return self.start + self.period.length

    @property
    def name(self) -> str:
        return self.start.strftime("p%Y%m%d_%H" if self.period is Period.HOUR else "p%Y%m%d")

    @property
    def archive(self) -> str:
        """The table of its tasks that succeeded."""
        return f"{TASK}_{self.name}"

    @property
    def next(self) -> Partition:
        return Partition(self.end, self.period)

    @property
    def first_id(self) -> UUID:
        return id_at(self.start)

    @property
    def end_id(self) -> UUID:
        return id_at(self.end)


def id_at(moment: datetime) -> UUID:
    """Return an id smaller than every id of this instant, of any UUID version: bounds of partitions leave no gap."""
    return UUID(int=first_of(round(moment.timestamp() * 1000)).int >> 80 << 80)


def partition_named(name: str) -> Partition | None:
    found = NAME.fullmatch(name)
    if found is None:
        return None
    day, hour = found.groups()
    start = datetime.strptime(day + (hour or "00"), "%Y%m%d%H").replace(tzinfo=UTC)
    return Partition(start, Period.DAY if hour is None else Period.HOUR)


MARK = "django_tasks_retry:"  # prefix of the comment on the table of results, which states the period and the backends
PARENT_COMMENT = """
SELECT obj_description(c.oid, 'pg_class')
FROM pg_class AS c
WHERE c.relnamespace = quote_ident(current_schema())::regnamespace AND c.relname = %(table)s AND c.relkind = 'p'
"""
CHILDREN = """
SELECT child.relname
FROM pg_inherits AS i
JOIN pg_class AS child ON child.oid = i.inhrelid
WHERE i.inhparent = to_regclass(%(table)s)
"""


@dataclass(frozen=True, slots=True)
class Layout:
    period: Period
    backends: tuple[str, ...]
    partitions: tuple[Partition, ...] = ()  # partitions that have tables, the oldest first

    @property
    def mark(self) -> str:
        return MARK + json.dumps({"period": self.period, "backends": self.backends})


def read_layout(using: str) -> Layout | None:
    """Return the layout; None if history is not partitioned."""
    if not engine_for(using).can_partition:
        return None
    rows = fetch(PARENT_COMMENT, {"table": TaskResult._meta.db_table}, using)
    if not rows or not (rows[0][0] or "").startswith(MARK):
        return None
    stored: dict[str, Any] = json.loads(rows[0][0].removeprefix(MARK))
    partitions = read_partitions(TASK, f"{TASK}_", using)
    return Layout(Period(stored["period"]), tuple(stored["backends"]), tuple(partitions))


def read_partitions(table: str, prefix: str, using: str) -> list[Partition]:
    """Return the partitions for which this table has children whose names begin so, the oldest first."""
    names = (name.removeprefix(prefix) for (name,) in fetch(CHILDREN, {"table": table}, using))
    return sorted(found for name in names if (found := partition_named(name)))


def tables_of(partition: Partition) -> list[str]:
    return [f"{table}_{partition.name}" for table in (TASK, *PARTITIONED)]
