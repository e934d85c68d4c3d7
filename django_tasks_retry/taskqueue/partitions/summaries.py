"""What the periods of a partitioned history hold, and what is wrong with them."""

from __future__ import annotations

from typing import Any

from ...clock import now
from ...guard.conditions import RESULT, TASK
from ..database import fetch
from .ahead import wanted
from .drop import longest_retention
from .layout import Layout, read_layout, tables_of
from .periods import Stretch

HELD = """
SELECT COALESCE(sum(pg_total_relation_size(oid)), 0)::bigint,
    COALESCE(max(reltuples) FILTER (WHERE relname = %(archive)s), 0)::bigint
FROM pg_class
WHERE relnamespace = quote_ident(current_schema())::regnamespace AND relname = ANY (%(tables)s)
"""


def summarize(using: str) -> list[dict[str, Any]]:
    layout = read_layout(using)
    return [summary(stretch, layout, using) for stretch in layout.stretches] if layout else []


def summary(stretch: Stretch, layout: Layout, using: str) -> dict[str, Any]:
    asked = {"archive": f"{TASK}_{stretch.name}", "tables": list(tables_of(stretch))}
    [[size, tasks]] = fetch(HELD, asked, using)
    kept = longest_retention(layout)
    return {
        "name": stretch.name,
        "from": stretch.start,
        "until": stretch.end,
        "tasks": max(tasks, 0),
        "bytes": size,
        "dropped_from": None if kept is None else stretch.end + stretch.period.length + kept,
    }


def partition_problems(using: str) -> list[str]:
    """Sentences for whoever operates it; none where history is not partitioned, or all is well."""
    layout = read_layout(using)
    if layout is None:
        return []
    problems = []
    if longest_retention(layout) is None:
        problems.append(
            f"No period is ever dropped: KEEP_SUCCESS of one of the backends {', '.join(layout.backends)} is None, or "
            "TASKS does not name it."
        )
    moment = now(using)
    late = [stretch.name for stretch in wanted(layout, moment) if stretch.start <= moment + layout.period.length]
    if late:
        problems.append(f"There is no partition for {', '.join(late)}: rows go to {RESULT}_kept and its like.")
    return problems
