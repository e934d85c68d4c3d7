import re
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Model

from django_tasks_retry import models
from django_tasks_retry.clock import FUNCTION
from django_tasks_retry.guard.sql_enqueue import NAME as ENQUEUE
from django_tasks_retry.taskqueue.database import database
from django_tasks_retry.taskqueue.engines import engine_for

POSITION = ("queue", "priority")  # a task's position in the queue: operators may change it, workers may not
MOVED = ("eta", *models.STATE_COLUMNS)  # the columns of a task that moves write
COUNTED = (
    "recent", "paused_at", "paused_by", "reason", "probe_at", "probing_since", "probe_from", "counts_from",
)  # fmt: skip
"""The columns of a limit that claims and circuit breakers write. Limits themselves are for operators."""

PAUSED = ("paused_at", "paused_by", "reason")  # the columns of a schedule that operators write, and workers do not
Grants = dict[type[Model], tuple[str, ...]]


def update_all_but(model: type[Model], *kept: str) -> str:
    columns = (str(field.column) for field in model._meta.concrete_fields)
    return f"UPDATE ({', '.join(column for column in columns if column not in kept)})"


READ, ADD = ("SELECT",), ("SELECT", "INSERT")
KEEP, COUNT = (*ADD, "DELETE"), (*ADD, "UPDATE")
PRODUCER: Grants = {
    models.Task: ADD,
    models.TaskResult: READ,
    models.TaskEvent: READ,
    models.Step: ADD,
    models.Signal: ADD,
    **dict.fromkeys((models.Shard, models.ShardBucket), (*ADD, "UPDATE")),
}
WORKER: Grants = {
    models.Task: (*KEEP, f"UPDATE ({', '.join(MOVED)})"),
    models.Worker: (*KEEP, update_all_but(models.Worker, "id", "stop_asked_by")),
    models.FlowLimit: (*KEEP, f"UPDATE ({', '.join(COUNTED)})"),
    models.Schedule: (*ADD, update_all_but(models.Schedule, "name", *PAUSED)),
    **dict.fromkeys((models.TaskResult, models.TaskEvent, models.Step, models.Signal, models.OperatorEvent), KEEP),
    **dict.fromkeys((models.TaskStat, models.LaneStat, models.BacklogStat), (*KEEP, "UPDATE")),
    models.TaskTotal: COUNT,
    models.Queue: READ,
    **dict.fromkeys((models.Shard, models.ShardBucket), (*ADD, "UPDATE")),
}
OPERATOR: Grants = {
    models.Task: (*ADD, f"UPDATE ({', '.join((*MOVED, *POSITION))})"),
    models.Worker: (*READ, "UPDATE (stop_asked_at, stop_asked_by)"),
    **dict.fromkeys((models.TaskResult, models.TaskEvent, models.Step, models.Signal, models.OperatorEvent), ADD),
    **dict.fromkeys((models.FlowLimit, models.Queue), COUNT),
    **dict.fromkeys((models.TaskStat, models.TaskTotal, models.BacklogStat), READ),
    models.Schedule: (*COUNT, "DELETE"),
    **dict.fromkeys((models.Shard, models.ShardBucket), COUNT),
}
ROLES = {
    "producer": ("enqueues tasks and reads their results", PRODUCER),
    "worker": ("runs tasks and prunes finished ones; grant it also what your tasks touch", WORKER),
    "operator": ("serves the console: retries, cancels, pauses; grant it also what the admin site touches", OPERATOR),
}

HEAD = """\
-- Roles for PostgreSQL with the least privileges. None of them owns a table, so none can drop the guard,
-- disable a trigger, truncate, or change what a task was asked to do. `migrate` stays with the owner.
-- Rights on these tables that an earlier version granted, or that were added by hand, are taken back.
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
        # One statement: processes of this role never find themselves without rights.
        yield "DO $$ BEGIN"
        for line in rights_sql(name, grants, schema):
            yield f"  {line.format(role=role)};"
        yield "END $$;"


def rights_sql(name: str, grants: Grants, schema: str) -> Iterator[str]:
    tables = dict.fromkeys(model._meta.db_table for _, each in ROLES.values() for model in each)
    yield f"REVOKE ALL ON {', '.join(f'{schema}.{table}' for table in tables)} FROM {{role}}"
    yield f"GRANT USAGE ON SCHEMA {schema} TO {{role}}"
    yield f"GRANT EXECUTE ON FUNCTION {schema}.{FUNCTION}(), {schema}.{ENQUEUE} TO {{role}}"
    # Commands and the console check that all migrations are applied.
    yield f"GRANT SELECT ON {schema}.django_migrations TO {{role}}"
    for model, rights in grants.items():
        yield f"GRANT {', '.join(rights)} ON {schema}.{model._meta.db_table} TO {{role}}"
    if name != "producer":
        # `tasks events` and `tasks check` ask which number the newest event has.
        yield f"GRANT SELECT ON SEQUENCE {schema}.{models.TaskEvent._meta.db_table}_id_seq TO {{role}}"


def identifier(text: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,40}", text):
        raise CommandError(f"{text!r} is not a plain name. Write lower-case letters, digits and underscores.")
    return text


def statements_sql(names: Sequence[str], using: str) -> Iterator[str]:
    known = engine_for(using).statements()
    for name in names or known:
        if name not in known:
            raise CommandError(f"There is no statement {name!r}. There are: {', '.join(known)}.")
        yield f"{known[name]}\n"


class Command(BaseCommand):
    help = "Print SQL: `roles` are PostgreSQL roles with the least privileges, `statements` are what the queue runs."
    requires_system_checks = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("what", choices=["roles", "statements"])
        parser.add_argument("names", nargs="*", help="of statements (default: all)")
        parser.add_argument("--prefix", default="tasks", help="of the roles' names (default: tasks)")
        parser.add_argument("--schema", default="public", help="that holds the tables (default: public)")
        parser.add_argument("--database", help="that runs the statements (default: the one that holds the tasks)")

    def handle(self, *args: Any, **given: Any) -> None:
        if given["what"] == "statements":
            lines = statements_sql(given["names"], given["database"] or database())
        elif given["names"]:
            raise CommandError("`roles` takes no names. See --prefix and --schema.")
        else:
            lines = roles_sql(identifier(given["prefix"]), identifier(given["schema"]))
        for line in lines:
            self.stdout.write(line)
