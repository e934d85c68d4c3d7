"""Compare stored work with the code of this process before its release: what would wait, fail or change?

Nothing is written, and each question reads a bounded number of rows, but for one count of unfinished tasks.
"""

import ast
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from functools import cache
from types import ModuleType
from typing import TypeAlias

from django.db import DatabaseError, connections
from django.db.migrations import Migration
from django.db.migrations.executor import MigrationExecutor
from django.db.models import Count

from .. import registry
from ..clock import now
from ..conf import suggestion
from ..display.formatting import counted
from ..errors import InvalidLane, TaskQueueError, WrongArguments
from ..models import FlowLimit, Schedule, Step, Task
from ..payloads import is_hidden
from ..rules.names import short_id
from ..selection.payload import COLUMNS
from ..taskqueue import engine_for, read_rows, unreadable_columns
from ..taskqueue.enqueue import callee_of
from ..taskqueue.lanes import COLUMNS as LIMITED_COLUMNS
from ..taskqueue.lanes import decided_limit, limit_of
from ..taskqueue.schedules import definition_in_code, is_behind, listed_schedules
from ..taskqueue.workflows import CALLBACK, HIDDEN, UNTIL, StepKind

Plan: TypeAlias = Sequence[tuple[Migration, bool]]
SAMPLE = 1000  # unfinished tasks of each function whose arguments and steps are compared
RECENT = timedelta(days=7)
LARGE = 10_000  # rows from which a lock on a table is felt


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Finding:
    severity: Severity
    kind: str
    subject: str
    text: str


def preflight(backend: str, using: str) -> list[Finding]:
    """Return the findings, the worst first."""
    unfinished = Task.objects.using(using).unfinished().filter(backend=backend).order_by()
    stored = dict(unfinished.values_list("func_path").annotate(Count("pk")))
    found = [
        *missing_functions(stored, backend, using),
        *misfits(stored, backend, using),
        *steps_left_behind(stored, backend, using),
        *changed_schedules(backend, using),
        *shrunk_limits(backend, using),
        *open_migrations(using),
    ]
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity))


# Functions


def missing_functions(stored: Mapping[str, int], backend: str, using: str) -> Iterator[Finding]:
    for path, count in sorted(stored.items()):
        if registry.find(path) is None:
            text = f"{counted(count)} of {path} would wait for ever: this code does not know the function."
            text += suggestion(path, registry.known_paths())
            yield Finding(Severity.ERROR, "missing_function", path, text)
    for row in active_schedules(backend, using):
        if registry.find(row.func_path) is None:
            text = f"The schedule {row.name} calls {row.func_path}, which this code does not know: nothing would run."
            yield Finding(Severity.ERROR, "missing_function", row.name, text)
    failed = Task.objects.using(using).failed().filter(backend=backend, finished_at__gt=now(using) - RECENT)
    for path, count in failed.order_by().values_list("func_path").annotate(Count("pk")):
        if path not in stored and registry.find(path) is None:
            text = (
                f"{counted(count)} of {path} failed in the last 7 days, and this code lacks the function to retry them."
            )
            yield Finding(Severity.WARNING, "missing_function", path, text)


def active_schedules(backend: str, using: str) -> list[Schedule]:
    rows = Schedule.objects.using(using).filter(backend=backend, vanished_at=None, paused_at=None)
    return read_rows(rows.order_by("name"))


# Arguments


def misfits(stored: Mapping[str, int], backend: str, using: str) -> Iterator[Finding]:
    """Yield stored calls that the functions of this code no longer take: a sample of each function."""
    for path in sorted(stored):
        unlike: dict[str, list[Task]] = defaultdict(list)
        for task in sample(path, backend, using):
            if why := misfit(path, task):
                unlike[why].append(task)
        for why, some in unlike.items():
            examined = f" of the newest {SAMPLE:,}" if stored[path] > SAMPLE else ""
            text = f"{counted(len(some))}{examined}, such as {short_id(some[0].pk)}, would fail for good: {why}"
            yield Finding(Severity.ERROR, "arguments", path, text)
    for row in active_schedules(backend, using):
        if why := misfit(row.func_path, row):
            yield Finding(Severity.ERROR, "arguments", row.name, f"The runs of schedule {row.name} would fail: {why}")


def sample(path: str, backend: str, using: str) -> list[Task]:
    unfinished = Task.objects.using(using).unfinished().filter(backend=backend, func_path=path)
    return read_rows(unfinished.order_by("-pk").only(*COLUMNS)[:SAMPLE], COLUMNS)


def misfit(path: str, call: Task | Schedule) -> str:
    """Return why the function cannot take the call; nothing if it can, or if this code lacks the function."""
    task = registry.find(path)
    if task is None:
        return ""
    odd = [name for name, kind in (("args", list), ("kwargs", dict)) if not isinstance(getattr(call, name), kind)]
    if is_hidden(call.kwargs):
        return ""
    if columns := (*unreadable_columns(call), *odd):
        return f"{', '.join(dict.fromkeys(columns))} cannot be read."
    try:
        callee_of(task.func, takes_context=task.takes_context).check(call.args, call.kwargs)
    except WrongArguments as wrong:
        return str(wrong)
    return ""


# Steps

METHODS = {
    "step": StepKind.STEP, "sleep": StepKind.SLEEP, "wait_for": StepKind.SIGNAL, "gather": StepKind.BATCH,
    "call": StepKind.BATCH, "add_members": StepKind.MEMBERS, "effect": StepKind.EFFECT,
}  # fmt: skip


def steps_left_behind(stored: Mapping[str, int], backend: str, using: str) -> Iterator[Finding]:
    """Yield recorded steps of unfinished tasks that the module of their function no longer names so."""
    for path in sorted(stored):
        task = registry.find(path)
        names = task and names_of_steps(inspect.getmodule(inspect.unwrap(task.func)))
        if not names:
            continue
        ids = [each.pk for each in sample(path, backend, using)]
        steps = Step.objects.using(using).filter(task_id__in=ids).exclude(kind__in=HIDDEN).exclude(name=CALLBACK)
        recorded = steps.order_by().values_list("name", "kind").annotate(Count("pk"))
        for name, kind, count in recorded:
            yield from step_left_behind(path, name.removesuffix(UNTIL), kind, count, names)


def step_left_behind(
    path: str, name: str, kind: str, count: int, names: Mapping[str, list[re.Pattern[str]]]
) -> Iterator[Finding]:
    if any(pattern.fullmatch(name) for pattern in names.get(kind, ())):
        return
    kinds = [known for known, patterns in names.items() if re.escape(name) in {each.pattern for each in patterns}]
    if kinds:
        text = f"{counted(count)} recorded step {name!r} as a {kind}. It is a {kinds[0]} in this code, so they fail."
        yield Finding(Severity.ERROR, "steps", path, text)
    else:
        text = f"{counted(count)} recorded step {name!r}, which its module no longer names. A new step runs instead."
        yield Finding(Severity.WARNING, "steps", path, text)


@cache
def names_of_steps(module: ModuleType | None) -> dict[str, list[re.Pattern[str]]]:
    """Return the names that the source gives to steps, by kind. Computed parts of a name match any text."""
    try:
        tree = ast.parse(inspect.getsource(module)) if module else ast.Module([], [])
    except (OSError, TypeError, SyntaxError):
        return {}
    names: dict[str, list[re.Pattern[str]]] = defaultdict(list)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            method = node.func.attr
            kind = METHODS.get(method) or METHODS.get(method.removeprefix("a"))
            if kind:
                names[kind].append(re.compile(pattern_of(node.args[0]), re.DOTALL))
    return dict(names)


def pattern_of(name: ast.expr) -> str:
    if isinstance(name, ast.Constant):
        return re.escape(str(name.value))
    parts = name.values if isinstance(name, ast.JoinedStr) else [name]
    return "".join(re.escape(str(part.value)) if isinstance(part, ast.Constant) else ".*" for part in parts)


# Schedules and limits


def changed_schedules(backend: str, using: str) -> Iterator[Finding]:
    rows = {row.name: row for row in read_rows(Schedule.objects.using(using).filter(backend=backend))}
    listed = {one.name: one for one in listed_schedules(backend)}
    for name, one in listed.items():
        try:
            definition = definition_in_code(one, backend, now(using))
        except TaskQueueError as error:
            yield Finding(Severity.ERROR, "schedules", str(name), f"{one.where} would be left out: {error}")
            continue
        row = rows.get(name)
        if row is None:
            yield Finding(Severity.NOTE, "schedules", name, f"The schedule {name} would be created.")
        elif is_behind(row, one, definition):
            changed = sorted(column for column, value in definition.items() if getattr(row, column) != value)
            text = f"The schedule {name} would change: {', '.join(changed) or 'it would be resumed'}."
            yield Finding(Severity.NOTE, "schedules", name, text)
    for name, row in sorted(rows.items()):
        if not row.is_editable and row.vanished_at is None and name not in listed:
            text = f"The schedule {name} would stop once no worker of the release before is alive: this code lacks it."
            yield Finding(Severity.WARNING, "schedules", name, text)


def shrunk_limits(backend: str, using: str) -> Iterator[Finding]:
    """Yield limits below what runs now. A person's decision about a lane wins over the code."""
    states = {state.label: state for state in read_rows(FlowLimit.objects.using(using))}
    running = Task.objects.using(using).running().filter(backend=backend).order_by()
    for kind, column in LIMITED_COLUMNS.items():
        for name, count in running.exclude(**{column: ""}).values_list(column).annotate(Count("pk")):
            label = name if column == "lane" else f"{kind}:{name}"
            try:
                limit = limit_of(label, backend)
                most = (decided_limit(states[label], limit) if label in states else limit).most_running
            except InvalidLane:
                continue
            if most is not None and count > most:
                rest = f"none starts before {count - most + 1} have ended"
                text = f"{counted(count)} of {label} run, and this code allows {most}: {rest}."
                yield Finding(Severity.WARNING, "limits", label, text)


# Migrations

LOCKING = re.compile(
    r"""CREATE\ (?:UNIQUE\ )?INDEX\ (?!CONCURRENTLY)[^;]*?\ ON\ (?P<indexed>"?\w+"?)
    | ALTER\ TABLE\ (?P<altered>"?\w+"?)[^;]*?(?:\ TYPE\ |\ SET\ NOT\ NULL|ADD\ CONSTRAINT(?![^;]*NOT\ VALID))""",
    re.VERBOSE,
)


def open_migrations(using: str) -> Iterator[Finding]:
    """Yield migrations that are not applied, and those of their statements that lock a large table."""
    executor = MigrationExecutor(connections[using])
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    for migration, _ in plan:
        name = f"{migration.app_label}.{migration.name}"
        yield Finding(Severity.NOTE, "migrations", name, f"{name} is not applied. Run `manage.py migrate` first.")
    if plan:
        yield from locking_statements(executor, plan, using)


def locking_statements(executor: MigrationExecutor, plan: Plan, using: str) -> Iterator[Finding]:
    try:
        statements = executor.loader.collect_sql(plan)
    except (DatabaseError, ValueError, LookupError) as error:
        text = f"The statements of the migrations cannot be known before they run: {error}"
        yield Finding(Severity.NOTE, "migrations", "", text)
        return
    known = set(connections[using].introspection.table_names())
    for statement in statements:
        found = LOCKING.search(statement)
        table = (found["indexed"] or found["altered"]).strip('"') if found else ""
        if table in known and (rows := engine_for(using).estimate_rows(table)) >= LARGE:
            text = f"A migration locks {table}, which has about {rows:,} rows: {statement[:160]}"
            yield Finding(Severity.WARNING, "migrations", table, text)
