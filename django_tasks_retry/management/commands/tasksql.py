from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Model

from django_tasks_retry.clock import FUNCTION
from django_tasks_retry.models import (
    STATE_COLUMNS,
    LaneStat,
    LaneState,
    OperatorEvent,
    Queue,
    Schedule,
    Signal,
    Step,
    Task,
    TaskEvent,
    TaskResult,
    TaskStat,
    TaskTotal,
    Worker,
)

POSITION = ("queue", "priority")
"""A task's position in the queue: operators may change it, workers may not."""

MOVED = ("eta", *STATE_COLUMNS)
"""The columns of a task that moves write."""

Grants = dict[type[Model], tuple[str, ...]]

PRODUCER: Grants = {
    Task: ("SELECT", "INSERT"),
    TaskResult: ("SELECT",),
    TaskEvent: ("SELECT",),
    Step: ("SELECT", "INSERT"),
    Signal: ("SELECT", "INSERT"),
}
WORKER: Grants = {
    Task: ("SELECT", "INSERT", f"UPDATE ({', '.join(MOVED)})", "DELETE"),
    TaskResult: ("SELECT", "INSERT", "DELETE"),
    TaskEvent: ("SELECT", "INSERT", "DELETE"),
    Step: ("SELECT", "INSERT", "DELETE"),
    Signal: ("SELECT", "INSERT", "DELETE"),
    TaskStat: ("SELECT", "INSERT", "UPDATE", "DELETE"),
    TaskTotal: ("SELECT", "INSERT", "UPDATE"),
    Worker: ("SELECT", "INSERT", "UPDATE", "DELETE"),
    LaneState: ("SELECT", "INSERT", "UPDATE", "DELETE"),
    LaneStat: ("SELECT", "INSERT", "UPDATE", "DELETE"),
    Queue: ("SELECT",),
    Schedule: ("SELECT", "INSERT", "UPDATE"),
    OperatorEvent: ("SELECT", "INSERT", "DELETE"),
}
OPERATOR: Grants = {
    Task: ("SELECT", "INSERT", f"UPDATE ({', '.join((*MOVED, *POSITION))})"),
    TaskResult: ("SELECT", "INSERT"),
    TaskEvent: ("SELECT", "INSERT"),
    Step: ("SELECT", "INSERT"),
    Signal: ("SELECT", "INSERT"),
    TaskStat: ("SELECT",),
    TaskTotal: ("SELECT",),
    Worker: ("SELECT", "UPDATE (stop_asked_at, stop_asked_by)"),
    LaneState: ("SELECT", "INSERT", "UPDATE"),
    Queue: ("SELECT", "INSERT", "UPDATE"),
    Schedule: ("SELECT", "INSERT", "UPDATE", "DELETE"),
    OperatorEvent: ("SELECT", "INSERT"),
}
ROLES = {
    "producer": ("enqueues tasks and reads their results", PRODUCER),
    "worker": ("runs tasks and prunes finished ones; grant it also what your tasks touch", WORKER),
    "operator": ("serves the console: retries, cancels, pauses; grant it also what the admin site touches", OPERATOR),
}

HEAD = """\
-- Roles for PostgreSQL with the least privileges. None of them owns a table, so none can drop the guard,
-- disable a trigger, truncate, or change what a task was asked to do. `migrate` stays with the owner.
-- Run as the owner of the tables, then: GRANT {prefix}_worker TO the_login_of_your_workers;"""

CREATE = """\
DO $$ BEGIN
  IF NOT EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolname = '{role}') THEN CREATE ROLE {role} NOLOGIN; END IF;
END $$;"""


def roles_sql(prefix: str, schema: str) -> Iterator[str]:
    yield HEAD.format(prefix=prefix)
    for name, (purpose, grants) in ROLES.items():
        role = f"{prefix}_{name}"
        yield f"\n-- {role}: {purpose}."
        yield CREATE.format(role=role)
        yield f"GRANT USAGE ON SCHEMA {schema} TO {role};"
        yield f"GRANT EXECUTE ON FUNCTION {schema}.{FUNCTION}() TO {role};"
        # Commands and the console check that all migrations are applied.
        yield f"GRANT SELECT ON {schema}.django_migrations TO {role};"
        for model, rights in grants.items():
            yield f"GRANT {', '.join(rights)} ON {schema}.{model._meta.db_table} TO {role};"
        if name == "operator":
            # `tasks events` asks which number the newest event has.
            yield f"GRANT SELECT ON SEQUENCE {schema}.{TaskEvent._meta.db_table}_id_seq TO {role};"


def identifier(text: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", text):
        raise CommandError(f"{text!r} is not a plain name. Write lower-case letters, digits and underscores.")
    return text


class Command(BaseCommand):
    help = "Print SQL about the task tables: `roles` are PostgreSQL roles with the least privileges."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=["roles"])
        parser.add_argument("--prefix", default="tasks", help="of the roles' names (default: tasks)")
        parser.add_argument("--schema", default="public", help="that holds the tables (default: public)")

    def handle(self, *args: Any, **given: Any) -> None:
        for line in roles_sql(identifier(given["prefix"]), identifier(given["schema"])):
            self.stdout.write(line)
