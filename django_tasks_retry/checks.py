"""System checks. Those that ask a database run only with `migrate` and `check --database`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, TypeAlias

from django.apps import apps
from django.core.checks import CheckMessage, Tags, register
from django.db import connections, router
from django.db.utils import DatabaseError
from django.urls import get_resolver

from . import guard, registry
from .conf import OURS, configured_backends, is_sharded, message, options, shard_number
from .errors import InvalidOptions
from .models import Task, TaskEvent, TaskResult
from .rules.backoff import FixedDelays, has_unreachable_delays
from .rules.lanes.limits import LaneDeclaration, declaration_of
from .rules.lanes.templates import MAX_LANE, RESERVED, wrong_with
from .rules.names import path_of
from .taskqueue import database
from .taskqueue.engines import ENGINES, engine_for
from .taskqueue.enqueue import callee_of, discovery_advice, discovery_reason, will_be_found
from .taskqueue.retention import partition_problems
from .taskqueue.schedules import schedule_problems
from .taskqueue.shards import wrong_names

Found: TypeAlias = Iterator[CheckMessage]


def check(*tags: str) -> Callable[[Callable[[], Found]], Callable[..., list[CheckMessage]]]:
    """Make a function that yields messages a system check."""

    def add(find: Callable[[], Found]) -> Callable[..., list[CheckMessage]]:
        @register(*tags)
        def listed(**_: Any) -> list[CheckMessage]:
            return list(find())

        return listed

    return add


# Databases


@register(Tags.database)
def check_databases(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    return [found for alias in databases or () if alias in task_databases() for found in check_database(alias)]


def task_databases() -> set[str]:
    """Return the databases with tasks: by the routers, and by the DATABASE option of each backend."""
    found = {str(router.db_for_write(Task))}
    for backend in configured_backends():
        with suppress(InvalidOptions):  # which the backend's own check reports
            found.add(database(backend))
    return found


def check_database(alias: str) -> Found:
    if connections[alias].vendor not in ENGINES:
        text = f"Database {alias!r} is {connections[alias].display_name}, which cannot hold tasks."
        yield message("E002", text, "Use PostgreSQL or SQLite, or route the app to such a database.")
        return
    with suppress(DatabaseError):
        if (encoding := engine_for(alias).encoding()) != "UTF8":
            # A task may hold any text, which no other encoding can store; Django demands UTF-8 as well.
            text = f"Database {alias!r} is encoded in {encoding}, which cannot store all texts of tasks."
            hint = (
                "Create it anew with ENCODING 'UTF8' TEMPLATE template0, and copy the data by pg_dump and pg_restore."
            )
            yield message("E010", text, hint)
            return
    with suppress(DatabaseError):
        yield from check_guard(alias)
    with suppress(DatabaseError):
        yield from check_partitions(alias)
    with suppress(DatabaseError):
        yield from check_shards(alias)


def check_shards(alias: str) -> Found:
    for backend in configured_backends():
        if is_sharded(backend) and database(backend) == alias:
            for number, (known, now) in wrong_names(backend).items():
                text = f"Shard {number} is {known!r} to the database {alias!r}, and {now or 'nothing'!r} in SHARDS."
                hint = "Ids of tasks hold the number, so put the aliases back in their order, and append new ones."
                yield message("E011", text, hint)


@check(Tags.models)
def check_enqueue_timeout() -> Found:
    for backend in configured_backends():
        with suppress(InvalidOptions):  # which the backend's own check reports
            if is_sharded(backend) and not shard_number(backend) and options(backend).enqueue_timeout is None:
                text = f"TASKS[{backend!r}] has SHARDS and no ENQUEUE_TIMEOUT, so calls wait for a frozen shard."
                yield message("W011", text, "Add 'ENQUEUE_TIMEOUT': 1 to its OPTIONS.")


def check_guard(alias: str) -> Found:
    if sys.argv[1:2] == ["migrate"]:
        return  # which installs it, and would not begin
    if not guard.has_tables(alias):
        text = f"Database {alias!r} does not have the tables of the task queue, so nothing can be enqueued or run."
        # A warning: a new project is checked before it is migrated.
        yield message("W010", text, "Run manage.py migrate.")
    elif absent := guard.missing(alias):
        text = f"Database {alias!r} does not enforce the task contract ({', '.join(sorted(absent))} missing)."
        hint = "Run manage.py migrate, which installs the guard. Was a trigger disabled by hand?"
        yield message("E001", text, hint)
    elif rules := guard.unenforced(alias):
        text = f"Database {alias!r} cannot enforce by itself that {'; or that '.join(rules)}."
        hint = "Change these tables through the package only. See 'Other servers' in the how-to on databases."
        yield message("W015", text, hint)


def check_partitions(alias: str) -> list[CheckMessage]:
    problems = partition_problems(alias)
    return [message("W014", f"History in database {alias!r} is partitioned. {problem}") for problem in problems]


@check(Tags.models)
def check_database_settings() -> Found:
    """Check the settings alone, so that a plain `check` reports it, too."""
    for alias in sorted(task_databases()):
        if connections[alias].vendor in ENGINES:
            yield from engine_for(alias).check_settings()


@check(Tags.models)
def check_routers() -> Found:
    aliases = {model.__name__: router.db_for_write(model) for model in (Task, TaskResult, TaskEvent)}
    if len(set(aliases.values())) > 1:
        places = ", ".join(f"{name} in {alias!r}" for name, alias in aliases.items())
        text = f"The database routers spread the task tables over several databases: {places}."
        hint = "Route the whole app django_tasks_retry to one database; a move and its events are one transaction."
        yield message("E003", text, hint)


# Declarations in code


@check(Tags.models)
def check_code_schedules() -> Found:
    """Report bad expressions, unknown zones, schedules that never fire and duplicate names before a worker starts."""
    hint = "A schedule has a registered task, its arguments, and cron=… or every=…; see the how-to on schedules."
    for backend in configured_backends():
        if shard_number(backend):
            continue  # it has those of the first shard
        with suppress(InvalidOptions):  # which the backend's own check reports
            for where, why in schedule_problems(backend, datetime.now(UTC)):
                yield message("E008", f"{where}: {why}", hint)


@check(Tags.models)
def check_backoff_schedules() -> Found:
    for path in registry.known_paths():
        most, backoff = registry.find_policy(path).max_attempts, registry.find_policy(path).backoff
        if most and isinstance(backoff, FixedDelays) and has_unreachable_delays(backoff, most):
            count = len(backoff.delays)
            text = f"{path} has delays that are never reached: {count} delays lie between {count + 1} attempts, and"
            hint = "Leave max_attempts out, and all delays of the schedule are used."
            yield message("W003", f"{text} max_attempts is {most}.", hint)


@check(Tags.models)
def check_lanes() -> Found:
    """Report templates that cannot be filled in, and lanes with two limits."""
    hint = "A lane is a text, with {names} of the function's arguments in it. "
    hint += "Functions that share one give it the same limits."
    for where, why in lane_problems():
        yield message("E009", f"{where}: {why}.", hint)


def lane_problems() -> Iterator[tuple[str, str]]:
    """Yield the path of each function whose lane is wrong, and what is wrong with it."""
    limited: dict[str, tuple[str, LaneDeclaration]] = {}
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


# Tasks and backends that would not be found


@check(Tags.models)
def check_task_modules() -> Found:
    """A warning: the module may be none of ours, and `migrate` must go on."""
    for module, why in registry.unimportable().items():
        text = f"{module} cannot be imported, so workers will not know the tasks in it ({why})."
        hint = "Fix it. If it belongs to another task queue that this project does not use, silence this check."
        yield message("W006", text, hint)


@check(Tags.models)
def check_backends() -> Found:
    if not configured_backends():
        text = "No backend of TASKS is RetryBackend, so nothing is enqueued here and workers do not start."
        yield message("W007", text, f'Add TASKS = {{"default": {{"BACKEND": "{OURS}"}}}} to the settings.')


@check(Tags.models)
def check_known_tasks() -> Found:
    if configured_backends() and not registry.project_paths():
        hint = "Define functions with @task in the tasks.py of an app in INSTALLED_APPS, or name their modules in "
        hint += "OPTIONS['TASK_MODULES']."
        yield message("W008", "No tasks are registered, so workers have nothing to run.", hint)


@check(Tags.models)
def check_undiscovered_tasks() -> Found:
    with suppress(Exception):  # views import tasks: checks run in no order, and Django's own of the URLs may come later
        _ = get_resolver().url_patterns
    modules = {task.func.__module__ for task in registry.registered() if not will_be_found(task.func)}
    for module in sorted(modules):
        text = f"Workers will not find the tasks in {module}: {discovery_reason(module)}."
        yield message("W009", text, discovery_advice(module))


@check()
def check_command_name() -> Found:
    """If two apps have a command of one name, Django silently takes that of the earlier app."""
    if apps.is_installed("channels"):
        text = "Django Channels has a command runworker, too: which one runs depends on the order of INSTALLED_APPS."
        hint = "Put 'django_tasks_retry' before 'channels' to run tasks, or after it to run Channels' workers."
        yield message("W005", text, hint)
