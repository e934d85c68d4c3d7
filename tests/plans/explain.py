"""Reads the plans of the statements that a verb really sends, with its real parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connections, transaction

from django_tasks_retry.taskqueue.engines.statements import KEPT_PLAN, STATEMENTS, StoredStatement

TASK = "django_tasks_retry_task"


@dataclass(frozen=True)
class Plan:
    """The work that PostgreSQL did for one statement."""

    sql: str
    root: dict[str, Any]

    @property
    def name(self) -> str:
        """As its file under sql/ begins; it stands behind the statement's first word."""
        return self.sql.partition("-- ")[2].partition("\n")[0]

    def nodes(self) -> Iterator[dict[str, Any]]:
        waiting = [self.root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting += node.get("Plans", [])

    def scans(self, table: str = TASK) -> list[dict[str, Any]]:
        """The nodes that read rows of a table, without those that write them."""
        return [node for node in self.nodes() if node.get("Relation Name") == table and "Scan" in node["Node Type"]]

    def walks(self, table: str) -> bool:
        """Whether it reads the table from one end to the other."""
        return any(node["Node Type"] == "Seq Scan" for node in self.scans(table))

    def finds_by_place(self, table: str = TASK) -> bool:
        """Whether it finds rows again by where they lie, without an index."""
        return any(node["Node Type"] == "Tid Scan" for node in self.scans(table))

    def indexes(self) -> set[str]:
        """The indexes that were read: a branch that was never executed reads none."""
        return {node["Index Name"] for node in self.nodes() if "Index Name" in node and node["Actual Loops"]}

    def rows_read(self, table: str = TASK) -> int:
        """Rows that the scans of a table looked at, kept or not."""
        return sum(rows_of(node) for node in self.scans(table))

    def buffers(self) -> int:
        return int(self.root["Shared Hit Blocks"] + self.root["Shared Read Blocks"])


def rows_of(node: dict[str, Any]) -> int:
    removed = sum(value for name, value in node.items() if name.startswith("Rows Removed by"))
    return round((node["Actual Rows"] + removed) * node["Actual Loops"])


@contextmanager
def explained(using: str) -> Iterator[list[Plan]]:
    """The plan of each statement sent meanwhile, which is executed once for its plan, undone, and executed again."""
    plans: list[Plan] = []

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if many or sql.startswith(("SAVEPOINT", "RELEASE", "ROLLBACK", "EXPLAIN")):
            return execute(sql, params, many, context)
        with transaction.atomic(using=using):
            explainable, given = sql, params
            for stored in STATEMENTS.values():
                if f"{stored.name}(" in sql:
                    explainable, given = as_in_its_function(
                        stored, params, lambda text: execute(text, None, False, context)
                    )
            execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {explainable}", given, many, context)
            [(answer,)] = context["cursor"].fetchall()
            transaction.set_rollback(True, using=using)
        [whole] = json.loads(answer) if isinstance(answer, str) else answer
        plans.append(Plan(sql, whole["Plan"]))
        return execute(sql, params, many, context)

    with connections[using].execute_wrapper(explain):
        yield plans


def as_in_its_function(stored: StoredStatement, params: Any, execute: Any) -> tuple[str, dict[str, Any]]:
    """A function's statement cannot be explained from outside: the same text, prepared, planned with its settings."""
    for setting, value in KEPT_PLAN.items():
        execute(f"SET LOCAL {setting} = {value}")
    execute("DEALLOCATE ALL")
    types, given = (
        f"({', '.join(listed)})" if stored.types else ""
        for listed in (stored.types.values(), [f"%({name})s::{kind}" for name, kind in stored.types.items()])
    )
    execute(f"PREPARE explained {types} AS {stored.body}")
    return f"EXECUTE explained {given}", params


@contextmanager
def query_plans(using: str) -> Iterator[list[str]]:
    """The same for SQLite, which tells one line for each table it reads."""
    lines: list[str] = []

    def explain(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith(("SELECT", "WITH", "UPDATE")):
            execute(f"EXPLAIN QUERY PLAN {sql}", params, many, context)
            lines.extend(row[3] for row in context["cursor"].fetchall())
        return execute(sql, params, many, context)

    with connections[using].execute_wrapper(explain):
        yield lines
