"""How history is laid out in a database: whether by partitions, by which, and whose tasks they hold.

Results, events and steps are partitioned by the id of their task. Tasks are not: one table holds all that may still
move, with its indexes and unique keys, and a table for each period holds those that have succeeded. These inherit from
it, so that whoever reads tasks reads them all. Nothing but this package and `prune` knows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...guard.archive import PARTITIONED
from ...guard.conditions import TASK
from ...models import TaskResult
from ..database import fetch, is_postgresql
from .periods import Period, Stretch, stretch_named

MARK = "django_tasks_retry:"
"""Before what the comment of the table of results tells: by which periods, and of which backends."""

LAID_OUT = """
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
    stretches: tuple[Stretch, ...] = ()
    """Those that have their tables, the oldest first."""

    @property
    def mark(self) -> str:
        return MARK + json.dumps({"period": self.period, "backends": self.backends})


def read_layout(using: str) -> Layout | None:
    """None where history is not partitioned."""
    if not is_postgresql(using):
        return None
    rows = fetch(LAID_OUT, {"table": TaskResult._meta.db_table}, using)
    if not rows or not (rows[0][0] or "").startswith(MARK):
        return None
    told: dict[str, Any] = json.loads(rows[0][0].removeprefix(MARK))
    return Layout(Period(told["period"]), tuple(told["backends"]), tuple(read_stretches(using)))


def read_stretches(using: str) -> list[Stretch]:
    names = (name.removeprefix(f"{TASK}_") for (name,) in fetch(CHILDREN, {"table": TASK}, using))
    return sorted(found for name in names if (found := stretch_named(name)))


def tables_of(stretch: Stretch) -> Sequence[str]:
    return [f"{table}_{stretch.name}" for table in (TASK, *PARTITIONED)]
