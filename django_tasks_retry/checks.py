"""System checks. Those that ask a database run only with `migrate` and `check --database`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from django.apps import apps
from django.core import checks
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import connections, router
from django.db.utils import DatabaseError
from django.urls import get_resolver

from . import guard, registry
from .conf import OURS, configured_backends
from .errors import InvalidOptions
from .models import Task, TaskEvent, TaskResult
from .rules.backoff import FixedDelays, has_unreachable_delays
from .rules.lanes.limits import Declaration, declaration_of
from .rules.lanes.templates import MAX_LANE, RESERVED, wrong_with
from .rules.names import path_of
from .taskqueue import database
from .taskqueue.engines import ENGINES, engine_for
from .taskqueue.enqueue import discovery
from .taskqueue.enqueue.checks import callee_of
from .taskqueue.retention.drop import partition_problems
from .taskqueue.schedules.sync import problems

SCHEDULE_HINT = "A schedule has a registered task, its arguments, and cron=… or every=…; see the how-to on schedules."


@register(Tags.database)
def check_databases(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    return [message for alias in databases or () if alias in task_databases() for message in check_database(alias)]


def task_databases() -> set[str]:
    """Return the databases with tasks: by the routers, and by the DATABASE option of each backend."""
    found = {str(router.db_for_write(Task))}
    for backend in configured_backends():
        with suppress(InvalidOptions):  # which the backend's own check reports
            found.add(database(backend))
    return found


def check_database(alias: str) -> list[CheckMessage]:
    connection = connections[alias]
    if connection.vendor not in ENGINES:
        return [
            Error(
                f"Database {alias!r} is {connection.display_name}, which cannot hold tasks.",
                hint="Use PostgreSQL or SQLite, or route the app to such a database.",
                id="django_tasks_retry.E002",
            )
        ]
    return check_encoding(alias) or check_guard(alias) + check_partitions(alias)


def check_encoding(alias: str) -> list[CheckMessage]:
    """A task may hold any text, which no other encoding can store; Django demands UTF-8 as well."""
    try:
        encoding = engine_for(alias).encoding()
    except DatabaseError:
        return []
    if encoding == "UTF8":
        return []
    return [
        Error(
            f"Database {alias!r} is encoded in {encoding}, which cannot store all texts of tasks.",
            hint="Create it anew with ENCODING 'UTF8' TEMPLATE template0, and copy the data by pg_dump and pg_restore.",
            id="django_tasks_retry.E010",
        )
    ]


@register(Tags.models)
def check_database_settings(**_: Any) -> list[CheckMessage]:
    """Check the settings alone, so that a plain `check` reports it, too."""
    supported = [alias for alias in sorted(task_databases()) if connections[alias].vendor in ENGINES]
    return [message for alias in supported for message in engine_for(alias).check_settings()]


def check_guard(alias: str) -> list[CheckMessage]:
    if sys.argv[1:2] == ["migrate"]:
        return []  # which installs it, and would not begin
    try:
        if not guard.has_tables(alias):
            # A warning: a new project is checked before it is migrated.
            return [
                checks.Warning(
                    f"Database {alias!r} does not have the tables of the task queue, so nothing can be enqueued "
                    "or run.",
                    hint="Run manage.py migrate.",
                    id="django_tasks_retry.W010",
                )
            ]
        absent = guard.missing(alias)
    except DatabaseError:
        return []
    if not absent:
        return []
    return [
        Error(
            f"Database {alias!r} does not enforce the task contract ({', '.join(sorted(absent))} missing).",
            hint="Run manage.py migrate, which installs the guard. Was a trigger disabled by hand?",
            id="django_tasks_retry.E001",
        )
    ]


def check_partitions(alias: str) -> list[CheckMessage]:
    try:
        problems = partition_problems(alias)
    except DatabaseError:
        return []
    return [
        checks.Warning(
            f"History in database {alias!r} is partitioned. {problem}",
            id="django_tasks_retry.W014",
        )
        for problem in problems
    ]


@register(Tags.models)
def check_routers(**_: Any) -> list[CheckMessage]:
    aliases = {model.__name__: router.db_for_write(model) for model in (Task, TaskResult, TaskEvent)}
    if len(set(aliases.values())) == 1:
        return []
    places = ", ".join(f"{name} in {alias!r}" for name, alias in aliases.items())
    return [
        Error(
            f"The database routers spread the task tables over several databases: {places}.",
            hint="Route the whole app django_tasks_retry to one database; a move and its events are one transaction.",
            id="django_tasks_retry.E003",
        )
    ]


@register(Tags.models)
def check_code_schedules(**_: Any) -> list[CheckMessage]:
    """Report bad expressions, unknown zones, schedules that never fire and duplicate names before a worker starts."""
    messages: list[CheckMessage] = []
    for backend in configured_backends():
        with suppress(InvalidOptions):  # which the backend's own check reports
            messages += [
                Error(f"{where}: {why}", hint=SCHEDULE_HINT, id="django_tasks_retry.E008")
                for where, why in problems(backend, datetime.now(UTC))
            ]
    return messages


@register(Tags.models)
def check_backoff_schedules(**_: Any) -> list[CheckMessage]:
    return [
        checks.Warning(
            f"{path} has delays that are never reached: {len(policy.backoff.delays)} delays lie between "
            f"{len(policy.backoff.delays) + 1} attempts, and max_attempts is {policy.max_attempts}.",
            hint="Leave max_attempts out, and all delays of the schedule are used.",
            id="django_tasks_retry.W003",
        )
        for path in registry.known_paths()
        if (policy := registry.find_policy(path)).max_attempts
        and isinstance(policy.backoff, FixedDelays)
        and has_unreachable_delays(policy.backoff, policy.max_attempts)
    ]


@register(Tags.models)
def check_lanes(**_: Any) -> list[CheckMessage]:
    """Report templates that cannot be filled in, and lanes with two limits."""
    return [
        Error(
            f"{where}: {why}.",
            hint="A lane is a text, with {names} of the function's arguments in it. Functions that share one give it "
            "the same limits.",
            id="django_tasks_retry.E009",
        )
        for where, why in lane_problems()
    ]


def lane_problems() -> Iterator[tuple[str, str]]:
    """Yield the path of each function whose lane is wrong, and what is wrong with it."""
    limited: dict[str, tuple[str, Declaration]] = {}
    for task in registry.registered():
        declared = declaration_of(task.func)
        if declared is None:
            continue
        path, template = path_of(task.func), declared.template
        callee = callee_of(task.func, takes_context=task.takes_context)
        names = None if callee.signature is None else frozenset(callee.signature.parameters)
        if why := wrong_with(template, names) or badly_named(template):
            yield path, f"the lane {template!r} cannot be filled in: {why}"
        elif template in limited and limited[template][1] != declared:
            yield path, f"the lane {template!r} has other limits than {limited[template][0]} gives it"
        else:
            limited[template] = path, declared


def badly_named(template: str) -> str:
    if template.startswith(RESERVED):
        return f"{' and '.join(RESERVED)} begin the names of whole queues and functions"
    return f"it is longer than {MAX_LANE} characters" if len(template) > MAX_LANE else ""


@register(Tags.models)
def check_task_modules(**_: Any) -> list[CheckMessage]:
    """A warning: the module may be none of ours, and `migrate` must go on."""
    return [
        checks.Warning(
            f"{module} cannot be imported, so workers will not know the tasks in it ({why}).",
            hint="Fix it. If it belongs to another task queue that this project does not use, silence this check.",
            id="django_tasks_retry.W006",
        )
        for module, why in registry.unimportable().items()
    ]


@register(Tags.models)
def check_backends(**_: Any) -> list[CheckMessage]:
    if configured_backends():
        return []
    return [
        checks.Warning(
            "No backend of TASKS is RetryBackend, so nothing is enqueued here and workers do not start.",
            hint=f'Add TASKS = {{"default": {{"BACKEND": "{OURS}"}}}} to the settings.',
            id="django_tasks_retry.W007",
        )
    ]


@register(Tags.models)
def check_known_tasks(**_: Any) -> list[CheckMessage]:
    if registry.project_paths() or not configured_backends():
        return []
    return [
        checks.Warning(
            "No tasks are registered, so workers have nothing to run.",
            hint="Define functions with @task in the tasks.py of an app in INSTALLED_APPS, or name their modules in "
            "OPTIONS['TASK_MODULES'].",
            id="django_tasks_retry.W008",
        )
    ]


@register(Tags.models)
def check_undiscovered_tasks(**__: Any) -> list[CheckMessage]:
    with suppress(Exception):  # views import tasks: checks run in no order, and Django's own of the URLs may come later
        _ = get_resolver().url_patterns
    modules = {task.func.__module__ for task in registry.registered() if not discovery.will_be_found(task.func)}
    return [
        checks.Warning(
            f"Workers will not find the tasks in {module}: {discovery.reason(module)}.",
            hint=discovery.advice(module),
            id="django_tasks_retry.W009",
        )
        for module in sorted(modules)
    ]


@register()
def check_command_name(**_: Any) -> list[CheckMessage]:
    """If two apps have a command of one name, Django silently takes that of the earlier app."""
    if not apps.is_installed("channels"):
        return []
    return [
        checks.Warning(
            "Django Channels has a command runworker, too: which one runs depends on the order of INSTALLED_APPS.",
            hint="Put 'django_tasks_retry' before 'channels' to run tasks, or after it to run Channels' workers.",
            id="django_tasks_retry.W005",
        )
    ]
