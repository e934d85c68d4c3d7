"""Other ways from a worker to PostgreSQL: through a pooler, or with as few rights as it can do with.

`ROUTE=pgbouncer pytest tests/worker` and `ROUTE=least_privilege pytest tests/worker` send all workers that way.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from io import StringIO
from typing import Any

from django.core.management import call_command
from django.db import connections

from .bouncer import Bouncer

Place = dict[str, Any]
LOGIN = "a_worker"


@contextmanager
def direct(alias: str, place: Place) -> Iterator[Place]:
    yield place


@contextmanager
def pgbouncer(alias: str, place: Place) -> Iterator[Place]:
    """In transaction mode: no session state can be relied upon."""
    bouncer = Bouncer(int(place["PORT"]))
    try:
        yield place | {"PORT": str(bouncer.port), "DISABLE_SERVER_SIDE_CURSORS": True}
    finally:
        bouncer.close()


@contextmanager
def least_privilege(alias: str, place: Place) -> Iterator[Place]:
    """A login with the rights of `manage.py tasksql roles`, and with those that the tests' tasks need."""
    roles = StringIO()
    call_command("tasksql", "roles", stdout=roles)
    with connections[alias].cursor() as cursor:
        cursor.execute(roles.getvalue())
        cursor.execute(f"DROP ROLE IF EXISTS {LOGIN}")
        cursor.execute(f"CREATE ROLE {LOGIN} LOGIN IN ROLE tasks_worker")
        cursor.execute("GRANT SELECT, INSERT ON auth_group, auth_group_permissions TO tasks_worker")
        cursor.execute("GRANT USAGE ON auth_group_id_seq TO tasks_worker")
    yield place | {"USER": LOGIN}


Route = Callable[[str, Place], AbstractContextManager[Place]]
ROUTES: dict[str, Route] = {"": direct, "pgbouncer": pgbouncer, "least_privilege": least_privilege}
CHOSEN = os.environ.get("ROUTE", "")
