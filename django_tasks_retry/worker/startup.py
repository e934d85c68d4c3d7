"""What is made sure of before a worker starts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from time import monotonic, sleep

from django.db import InterfaceError, OperationalError, connections

from .. import __version__, guard, middleware, registry
from ..conf import check_backend
from ..conf import options as queue_options
from ..conf import queues as known_queues
from ..errors import InvalidOptions, UnknownQueue
from ..rules.queues import matches
from ..taskqueue import check_queue_in_use, database
from .logs import printable
from .options import OF_CHILD, WorkerOptions

logger = logging.getLogger("django_tasks_retry.worker")
WILD = frozenset("*?[")
POSTGRESQL_TIMEOUTS = {"tcp_user_timeout": 15_000, "keepalives_idle": 30}
SHORTEST_CONNECT, LONGEST_CONNECT = 2, 10
PATIENCE_SECONDS = 60.0
"""For a database that does not answer when a worker starts: it fails over, or starts with the same machine."""
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 4.0


def prepare_connections(options: WorkerOptions) -> None:
    """Each thread keeps its own connection; a dead network is noticed; no pool starts threads before a fork."""
    # For each host in its turn: a lease must outlast some of them that do not answer.
    patience = max(SHORTEST_CONNECT, min(LONGEST_CONNECT, int(queue_options(check_backend(options.backend)).lease / 4)))
    timeouts = {"connect_timeout": patience, **POSTGRESQL_TIMEOUTS}
    for alias in connections:
        connection = connections[alias]
        connection.close()
        connection.settings_dict["CONN_MAX_AGE"] = None
        connection.settings_dict["CONN_HEALTH_CHECKS"] = True
        if connection.vendor == "postgresql":
            given = {key: value for key, value in connection.settings_dict["OPTIONS"].items() if key != "pool"}
            connection.settings_dict["OPTIONS"] = timeouts | given


def refuse_unsafe_start(options: WorkerOptions) -> None:
    """Unknown options, a file that cannot be written and a database without its guard are said now, in one line."""
    is_finite = options.drain or options.max_tasks is not None  # somebody waits for it to end
    patiently(lambda: check_database(options), database(options.backend), 0.0 if is_finite else PATIENCE_SECONDS)
    middleware.installed(options.backend)
    for module, why in registry.unimportable().items():
        logger.error(
            "%s cannot be imported; tasks in it wait for a worker that knows them · %s", module, printable(why)
        )
    if not registry.project_paths():
        logger.error(
            "this worker knows no task, so it will run none. Define functions with @task in the tasks.py of an app in "
            "INSTALLED_APPS, or name their modules in TASKS[%r]['OPTIONS']['TASK_MODULES'], and restart it",
            options.backend,
        )
    if options.heartbeat_file:
        try:
            Path(options.heartbeat_file).touch()
        except OSError as error:
            raise InvalidOptions(f"{options.heartbeat_file} cannot be written: {error.strerror}.") from None


def check_database(options: WorkerOptions) -> None:
    guard.ensure(database(options.backend))
    for pattern in (*options.queues, *options.exclude):
        check_pattern(pattern, options.backend)


def patiently(act: Callable[[], None], using: str, seconds: float) -> None:
    """Try again for so long while the database does not answer."""
    pause, end = FIRST_PAUSE, monotonic() + seconds
    while True:
        try:
            return act()
        except (OperationalError, InterfaceError) as error:
            connections[using].close()
            left = end - monotonic()
            if left <= 0:
                raise
            why = printable(" ".join(str(error).split()))
            logger.warning("the database does not answer; trying for %.0f s more · %s", left, why)
            sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 2)


def check_pattern(pattern: str, backend: str) -> None:
    """A worker that is told to serve a mistyped queue would wait for ever."""
    if not WILD.intersection(pattern):
        return check_queue_in_use(pattern, backend)
    known = known_queues(backend)
    if known and pattern != "*" and not any(matches(queue, [pattern]) for queue in known):
        raise UnknownQueue(f"{pattern!r} matches no queue of TASKS[{backend!r}]['QUEUES'] ({', '.join(known)}).")
    return None


def connections_said(options: WorkerOptions) -> str:
    if connections[database(options.backend)].vendor != "postgresql":
        return ""
    formula = f"{options.beside} + {options.processes} x ({options.threads} threads + {OF_CHILD})"
    return f"at most {options.connections} connections = {formula}"


def greeting(worker_id: str, options: WorkerOptions) -> str:
    place = connections[database(options.backend)].settings_dict
    where = f"{place['USER']}@{place['HOST']}/{place['NAME']}" if place.get("HOST") else str(place["NAME"])
    slots = f"{options.processes} x ({options.threads} threads + {options.async_slots} async)"
    parts = [
        f"django_tasks_retry {__version__}",
        f"worker {worker_id}",
        f"{connections[database(options.backend)].vendor} {where}",
        f"queues {', '.join(options.queues)}",
        f"{len(registry.project_paths())} tasks known",
        slots,
        connections_said(options),
        "reload on" if options.reload else "",
        "Ctrl-C stops gracefully",
    ]
    return " · ".join(part for part in parts if part)
