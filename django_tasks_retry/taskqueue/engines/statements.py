"""The statements of `sql/<name>.sql`, each whole; and those that PostgreSQL keeps planned, as functions.

Planning took half of a claim of one task, and half of its report. A prepared statement would keep the plan as well, but
not behind a pooler, which gives every transaction another session; a function's plan is kept by whichever session runs
it. Its settings pin the plan, so that one made while the table was empty is as good after a burst.

A function's name ends in the text's own hash: while a new version is rolled out, the functions of both are there.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any

from django.db import ProgrammingError, connections, transaction
from django.db.models import Model

from ... import guard
from ...clock import now
from ...guard.abilities import abilities_of
from ...models import Task
from ..database import fetch, fetch_any, is_postgresql

FOLDER = files("django_tasks_retry.taskqueue") / "sql"
GIVEN = re.compile(r"%\((\w+)\)s")
BOTH = frozenset(
    {
        "failure_head",
        "failure_heads",
        "failure_outcomes",
        "move_on",
        "open_batches",
        "open_member",
        "late",
        "pending_maintenance",
        "poison",
        "steps",
        "waiting",
    }
)
"""Files for both databases. Others end in `_sqlite`, or are for PostgreSQL."""
TASKS = "django_tasks_retry_task"
HEADING = re.compile(r"(-- [\w ]+).*\n(?:--.*\n)*")
PARAMETER = re.compile(r"%\((\w+)\)s::(\w+(?:\[\])?)")
UNDEFINED_FUNCTION = "42883"
KEPT_PLAN = {"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "enable_bitmapscan": "off"}
CREATE = """\
CREATE OR REPLACE FUNCTION {name}({arguments}) RETURNS TABLE ({columns}) LANGUAGE plpgsql {settings} AS $function$
#variable_conflict use_column
BEGIN
RETURN QUERY
{body};
END $function$"""
# For a statement that answers one value. It chooses no plan, and a set of rows and settings would cost it 20 µs of 200.
CREATE_FOR_ONE = """\
CREATE OR REPLACE FUNCTION {name}({arguments}) RETURNS {columns} LANGUAGE plpgsql AS $function$
#variable_conflict use_column
DECLARE answer {columns};
BEGIN
{body} INTO answer;
RETURN answer;
END $function$"""
OF_OURS = """
SELECT p.proname, p.oid::regprocedure::text
FROM pg_proc p
WHERE p.pronamespace = quote_ident(current_schema())::regnamespace AND p.proname ~ '^dtr_[a-z_]+_[0-9a-f]{12}$'
ORDER BY obj_description(p.oid, 'pg_proc') DESC NULLS LAST
"""
ARE_THERE = """
SELECT bool_and(COALESCE(has_function_privilege(to_regproc(name)::oid, 'EXECUTE'), FALSE))
FROM unnest(%(names)s::text[]) AS name
"""
STATEMENTS: dict[str, StoredStatement] = {}  # stored statements by the name of their function


def read_sql(name: str) -> str:
    """Read a file. Call it at import: a running worker then needs no file that a leak of descriptors could deny it."""
    return named((FOLDER / f"{name}.sql").read_text(encoding="utf-8"))


def files_of(vendor: str) -> dict[str, str]:
    """The files that this database runs, by name; those that name one archive, as if it held all tasks."""
    texts = {file.name.removesuffix(".sql"): file.read_text(encoding="utf-8") for file in FOLDER.iterdir()}
    if vendor == "sqlite":
        names = {name.removesuffix("_sqlite"): name for name in texts if name in BOTH or name.endswith("_sqlite")}
    else:
        names = {name: name for name in texts if not name.endswith("_sqlite")}
    return {name: texts[file].replace("{archive}", TASKS).rstrip() for name, file in sorted(names.items())}


def named(text: str) -> str:
    """Put the first word first, by which tools name a statement, then its name, for readers of the server's list."""
    heading = HEADING.match(text)
    if heading is None:
        return text
    word, rest = text[heading.end() :].split(maxsplit=1)
    return f"{word} {heading[1]}\n{rest}"


# Read at import, for the same reason.
SQL = {vendor: {name: named(text) for name, text in files_of(vendor).items()} for vendor in ("postgresql", "sqlite")}


def by_id(text: str) -> str:
    """The statement for servers whose rows have no place."""
    return text.replace("t.ctid", "t.id")


SQL["without places"] = {name: by_id(text) for name, text in SQL["postgresql"].items()}


def heading_of(sql: str) -> str:
    """The line that tells its name."""
    return sql.partition(" ")[2].partition("\n")[0]


class StoredStatement:
    """One statement, by its text and as a call of its function. `columns` are those of its rows, or its one type."""

    def __init__(self, name: str, columns: Mapping[str, str] | str) -> None:
        self.kind, self.text = f"dtr_{name}", read_sql(name)
        self.types = dict(PARAMETER.findall(self.text))
        self.answers_one = isinstance(columns, str)
        self.columns = columns if isinstance(columns, str) else listed_columns(columns)
        self.name = f"{self.kind}_{hashlib.sha256(self.definition('').encode()).hexdigest()[:12]}"
        given = ", ".join(f"%({parameter})s::{kind}" for parameter, kind in self.types.items())
        answer = "" if self.answers_one else "* FROM "
        self.call = f"SELECT {heading_of(self.text)}\n{answer}{self.name}({given})"
        STATEMENTS[self.name] = self

    @property
    def body(self) -> str:
        """The statement with numbered parameters, as a function or PREPARE takes it."""
        places = {name: f"${place}" for place, name in enumerate(self.types, 1)}
        return PARAMETER.sub(lambda found: f"{places[found[1]]}", self.text).replace("%%", "%")

    def definition(self, name: str) -> str:
        return (CREATE_FOR_ONE if self.answers_one else CREATE).format(
            name=name,
            arguments=", ".join(self.types.values()),
            columns=self.columns,
            settings=" ".join(f"SET {setting} = {value}" for setting, value in KEPT_PLAN.items()),
            body=self.body.rstrip(),
        )


def listed_columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f'"{column}" {kind}' for column, kind in columns.items())


class Functions:
    """Calls the stored functions of this version; sends the texts if they are missing or not permitted."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.are_there: bool | None = None

    def run(self, statement: StoredStatement, parameters: Any) -> list[tuple[Any, ...]]:
        if self.are_there is None:
            self.are_there = abilities_of(self.using).kept_plans and self.find()
        if not self.are_there:
            return fetch_any(self.text_of(statement), parameters, self.using)
        try:
            return fetch_any(statement.call, parameters, self.using)
        except ProgrammingError as error:
            if getattr(error.__cause__, "sqlstate", None) != UNDEFINED_FUNCTION:
                raise
            self.are_there = None  # dropped since, so the next statement asks anew
            if connections[self.using].in_atomic_block:
                raise
        return fetch_any(self.text_of(statement), parameters, self.using)

    def find(self) -> bool:
        return bool(fetch(ARE_THERE, {"names": list(STATEMENTS)}, self.using)[0][0])

    def text_of(self, statement: StoredStatement) -> str:
        return statement.text if abilities_of(self.using).row_place else by_id(statement.text)


def install_after_migrate(using: str, **_: Any) -> None:
    """Receiver of `post_migrate`. The newest other function of each kind stays, for workers that still call it."""
    if not is_postgresql(using) or not guard.is_migrated(using) or not abilities_of(using).kept_plans:
        return
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        cursor.execute(OF_OURS)
        there = dict(cursor.fetchall())
        for statement in STATEMENTS.values():
            if statement.name not in there:
                cursor.execute(statement.definition(statement.name))
                cursor.execute(f"COMMENT ON FUNCTION {statement.name} IS '{now(using).isoformat()}'")
            others = [full for name, full in there.items() if is_another(name, statement)]
            for full in others[1:]:
                cursor.execute(f"DROP FUNCTION {full}")


def prepared(name: str, text: str) -> str:
    """The statement for PREPARE, so that EXPLAIN EXECUTE tells its plan."""
    given = list(dict.fromkeys(GIVEN.findall(text)))
    numbered = GIVEN.sub(lambda found: f"${given.index(found[1]) + 1}", text).replace("%%", "%")
    notes = [f"-- Parameters: {', '.join(given)}.\n"] if given else []
    if any(statement.kind == f"dtr_{name}" for statement in STATEMENTS.values()):
        settings = (f"{setting} = {value}" for setting, value in KEPT_PLAN.items())
        notes.append(f"-- Workers call it as a function, with {', '.join(settings)}.\n")
    return f"{''.join(notes)}PREPARE dtr_{name} AS\n{numbered};"


def like_task(names: Iterable[str]) -> dict[str, str]:
    return like_table(Task, names)


def like_table(model: type[Model], names: Iterable[str]) -> dict[str, str]:
    """Columns of the same types as those of the table."""
    return {name: f"{model._meta.db_table}.{name}%TYPE" for name in names}


def is_another(name: str, statement: StoredStatement) -> bool:
    return name != statement.name and name.rpartition("_")[0] == statement.kind
