"""What is made sure of before a worker starts."""

from __future__ import annotations

from pathlib import Path

from django.db import connections

from .. import __version__, guard, registry
from ..conf import options as queue_options
from ..errors import InvalidOptions
from ..taskqueue import database
from .options import WorkerOptions

POSTGRESQL_TIMEOUTS = {"tcp_user_timeout": 15_000, "keepalives_idle": 30}
SHORTEST_CONNECT, LONGEST_CONNECT = 2, 10


def prepare_connections(options: WorkerOptions) -> None:
    """Each thread keeps its own connection; a dead network is noticed; no pool starts threads before a fork."""
    # For each host in its turn: a lease must outlast some of them that do not answer.
    patience = max(SHORTEST_CONNECT, min(LONGEST_CONNECT, int(queue_options(options.backend).lease / 4)))
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
    queue_options(options.backend)
    guard.ensure(database(options.backend))
    registry.discover()
    if options.heartbeat_file:
        try:
            Path(options.heartbeat_file).touch()
        except OSError as error:
            raise InvalidOptions(f"{options.heartbeat_file} cannot be written: {error.strerror}.") from None


def greeting(worker_id: str, options: WorkerOptions) -> str:
    place = connections[database(options.backend)].settings_dict
    where = f"{place['USER']}@{place['HOST']}/{place['NAME']}" if place.get("HOST") else str(place["NAME"])
    slots = f"{options.processes} x ({options.threads} threads + {options.async_slots} async)"
    parts = [
        f"django_tasks_retry {__version__}",
        f"worker {worker_id}",
        f"{connections[database(options.backend)].vendor} {where}",
        f"queues {', '.join(options.queues)}",
        f"{len(registry.known_paths())} tasks known",
        slots,
        "reload on" if options.reload else "",
        "Ctrl-C stops gracefully",
    ]
    return " · ".join(part for part in parts if part)
