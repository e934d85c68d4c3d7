"""The guard where history is partitioned: on each partition, and on each table of finished tasks.

A statement that names a partition does not fire the triggers that its parent has for whole statements, so each
partition has them, too. A table of finished tasks takes in nothing but what stands in the table of tasks, column by
column, at that moment: rows are moved there, never written, and never change.
"""

from __future__ import annotations

from typing import Any

from .conditions import EVENT, RESULT, STEP, TASK

PARTITIONED = (RESULT, EVENT, STEP)

FAMILY = """
SELECT parent.relname, child.relname, child.relispartition
FROM pg_inherits AS i
JOIN pg_class AS parent ON parent.oid = i.inhparent
JOIN pg_class AS child ON child.oid = i.inhrelid
WHERE parent.relnamespace = quote_ident(current_schema())::regnamespace AND parent.relname = ANY (%s)
    AND parent.relkind IN ('r', 'p')
"""

STANDS_THERE = "CAST(t AS record) OPERATOR(pg_catalog.*=) CAST(a AS record)"
"""Bit by bit; the tables have the same columns in the same order."""

ARCHIVED = {
    "dtr_guard_archive": (
        "AFTER INSERT ON {table} REFERENCING NEW TABLE AS added FOR EACH STATEMENT",
        "dtr_guard_archive",
    ),
    "dtr_guard_archived": ("BEFORE UPDATE ON {table} FOR EACH ROW", "dtr_guard_archived"),
    "dtr_guard_truncate": ("AFTER TRUNCATE ON {table} FOR EACH STATEMENT", "dtr_guard_truncate"),
}
"""Of each table of finished tasks: name → (when, function)."""

KNOWN = {
    "dtr_guard_known": (
        "AFTER INSERT ON {table} REFERENCING NEW TABLE AS added FOR EACH STATEMENT",
        "dtr_guard_known",
    ),
}
"""Of the table of tasks, where there are such tables: its primary key does not know the ids in them, but results do."""

UNMOVED = "IllegalMove: history takes in a finished task as it is, and from the table of tasks alone"


def families(cursor: Any) -> list[tuple[str, str]]:
    """Parent and child: partitions of results, events and steps; tables of finished tasks."""
    cursor.execute(FAMILY, [[TASK, *PARTITIONED]])
    return [(parent, child) for parent, child, _ in cursor.fetchall()]


def unmoved() -> str:
    same = f"t.id OPERATOR(pg_catalog.=) a.id AND {STANDS_THERE}"
    missing = f"(SELECT TRUE FROM ONLY {{schema}}.{TASK} AS t WHERE {same} LIMIT 1) IS NULL"  # noqa: S608
    return f"EXISTS (SELECT 1 FROM added AS a WHERE {missing})"  # noqa: S608 - names of our own
