"""Checks before a worker starts, and the settings of its connections."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from .. import __version__, guard, middleware, registry
from ..conf import check_backend
from ..conf import options as queue_options
from ..conf import queues as known_queues
from ..errors import InvalidOptions, UnknownQueue
from ..rules.queues import matches
from ..taskqueue import check_queue_in_use, database, engine_for
from ..taskqueue.database import hosts_of
from .logs import printable
from .options import OF_CHILD, WorkerOptions
from .shared.database import Deadline

logger = logging.getLogger("django_tasks_retry.worker")
WILD = frozenset("*?[")
POSTGRESQL_TIMEOUTS = {"tcp_user_timeout": 15_000, "keepalives_idle": 30}
SHORTEST_CONNECT, LONGEST_CONNECT = 2, 10
NOTICE_SECONDS, PHASE_SECONDS = 1.0, 30.0
"""Seconds until the log says what the start waits for, and until a silent server is given up."""
PATIENCE_SECONDS = 60.0  # seconds to wait for a database at the start: it fails over, or starts with the same machine
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 4.0


def prepare_connections(options: WorkerOptions) -> None:
    """Keep a connection for each thread, notice a dead network, and use no pool, whose threads a fork would lose."""
    lease = queue_options(check_backend(options.backend)).lease
    for alias in connections:
        connection = connections[alias]
        connection.close()
        connection.settings_dict["CONN_MAX_AGE"] = None
        connection.settings_dict["CONN_HEALTH_CHECKS"] = True
        if connection.vendor == "postgresql":
            given = {key: value for key, value in connection.settings_dict["OPTIONS"].items() if key != "pool"}
            timeouts = {"connect_timeout": connect_timeout(connection.settings_dict, lease), **POSTGRESQL_TIMEOUTS}
            connection.settings_dict["OPTIONS"] = timeouts | given
    connection_created.connect(prefer_answering_host, dispatch_uid="django_tasks_retry.hosts")


def connect_timeout(place: dict[str, Any], lease: float) -> int:
    """Return the seconds for each host in its turn. If there are more, one that is silent costs as little as it can."""
    if len(hosts_of(place)) > 1:
        return SHORTEST_CONNECT  # the driver rounds less up to this
    return max(SHORTEST_CONNECT, min(LONGEST_CONNECT, int(lease / 4)))


def prefer_answering_host(connection: BaseDatabaseWrapper, **_: Any) -> None:
    """Move the host that answered to the front: the next connection of this process need not wait for silent ones.

    One value changes for all threads at once. Two do so for new threads only, in settings of their own: another thread
    may read one before it is changed and the other after.
    """
    place: dict[str, Any] = connection.settings_dict
    before = hosts_of(place)
    if connection.vendor != "postgresql" or len(before) < 2:
        return
    info = connection.connection.info
    after = sorted(before, key=lambda each: each not in {(info.host, str(info.port)), (info.host, "")})
    changed = changed_settings(place, before, after)
    if len(changed) > 1:
        place = connection.settings_dict = connections.settings[connection.alias] = dict(place)
    place.update(changed)


def changed_settings(
    place: dict[str, Any], before: list[tuple[str, str]], after: list[tuple[str, str]]
) -> dict[str, Any]:
    """Return the settings that name the servers in another order, each where it is given now."""
    changed: dict[str, Any] = {}
    options = place.get("OPTIONS") or {}
    for name, old, new in zip(("HOST", "PORT"), zip(*before, strict=True), zip(*after, strict=True), strict=True):
        if old == new:
            continue
        if place.get(name):
            changed[name] = ",".join(new)
        else:
            changed["OPTIONS"] = options = options | {name.lower(): ",".join(new)}
    return changed


def refuse_unsafe_start(options: WorkerOptions) -> None:
    """Refuse unknown options, a file that cannot be written and a database without its guard, in one line."""
    is_finite = options.drain or options.max_tasks is not None  # somebody waits for it to end
    using = database(options.backend)
    patiently(lambda: check_database(options), using, 0.0 if is_finite else PATIENCE_SECONDS)
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
            with phase("the guard and the queues are checked", using):
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


@contextmanager
def phase(what: str, using: str) -> Iterator[None]:
    """Log what the start waits for if it takes longer than a second, and end it if the server stays silent."""
    deadline = Deadline(lambda: connections[using].connection, PHASE_SECONDS)
    place = address(using)
    notice = threading.Timer(NOTICE_SECONDS, logger.warning, ("waiting for the database %s: %s", place, what))
    notice.start()
    try:
        with deadline.running():
            yield
    except (OperationalError, InterfaceError) as error:
        if not deadline.has_passed:
            raise
        raise OperationalError(f"The server did not answer within {PHASE_SECONDS:g} s, while {what}.") from error
    finally:
        notice.cancel()
        notice.join()  # no thread is left when children are forked


def check_pattern(pattern: str, backend: str) -> None:
    """Refuse a mistyped queue: a worker that serves it would wait for ever."""
    if not WILD.intersection(pattern):
        return check_queue_in_use(pattern, backend)
    known = known_queues(backend)
    if known and pattern != "*" and not any(matches(queue, [pattern]) for queue in known):
        raise UnknownQueue(f"{pattern!r} matches no queue of TASKS[{backend!r}]['QUEUES'] ({', '.join(known)}).")
    return None


def connection_count(options: WorkerOptions) -> str:
    if not engine_for(database(options.backend)).has_server:
        return ""
    formula = f"{options.beside} + {options.processes} x ({options.threads} threads + {OF_CHILD})"
    return f"at most {options.connections} connections = {formula}"


def address(using: str) -> str:
    place = connections[using].settings_dict
    hosts = ",".join(host for host, _ in hosts_of(place))
    return f"{place['USER']}@{hosts}/{place['NAME']}" if hosts else str(place["NAME"])


def greeting(worker_id: str, options: WorkerOptions) -> str:
    using = database(options.backend)
    slots = f"{options.processes} x ({options.threads} threads + {options.async_slots} async)"
    known = len(registry.project_paths())
    parts = [
        f"django_tasks_retry {__version__}",
        f"worker {worker_id}",
        f"{connections[using].vendor} {address(using)}",
        f"queues {', '.join(options.queues)}",
        f"{known} {'task' if known == 1 else 'tasks'} known",
        slots,
        connection_count(options),
        "reload on" if options.reload else "",
        "Ctrl-C stops gracefully",
    ]
    return " · ".join(part for part in parts if part)
