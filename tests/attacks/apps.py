"""Apps that a worker under attack installs: what its project, or its host, does."""

from __future__ import annotations

import os
from itertools import count
from typing import Any

from django.apps import AppConfig
from django.db.backends.signals import connection_created

PREPARE = {"postgresql": "SET app.tenant = 'acme'", "sqlite": "PRAGMA cache_size = 4321"}


def prepare(connection: Any, **_: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(PREPARE[connection.vendor])


class PreparedSessions(AppConfig):
    """A project that sets each session up, for a tenant say."""

    name, label = "tests.attacks", "prepared_sessions"

    def ready(self) -> None:
        connection_created.connect(prepare)


class NoFork(AppConfig):
    """A host that has no room for another process, for a while."""

    name, label = "tests.attacks", "no_fork"

    def ready(self) -> None:
        fork, tries = os.fork, count()

        def refuse_at_first() -> int:
            if next(tries) < 3:
                raise BlockingIOError(11, "Resource temporarily unavailable")
            return fork()

        os.fork = refuse_at_first
