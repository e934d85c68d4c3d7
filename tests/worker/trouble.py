"""A PostgreSQL server that the tests may stop, crash, fill and lie in front of."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import psycopg
from django.core.management import call_command
from django.db import Error, connections

from django_tasks_retry.models import Task
from tests.pg import PgCluster
from tests.proxy import Proxy
from tests.router import CurrentDatabase

from .harness import wait_for

ALIAS = "postgresql"
T = TypeVar("T")
TABLES = "task, taskresult, taskevent, worker, taskstat, schedule, operatorevent"


END_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_type = 'client backend' AND NOT pid = ANY (%s)
"""


class Server:
    """One cluster with our tables, which the alias `postgresql` of this process points at for a while."""

    is_migrated = False

    def __init__(self) -> None:
        self.cluster = PgCluster(settings={"max_connections": "40", "superuser_reserved_connections": "0"})
        self.cluster.initdb()
        self.cluster.start()

    def place(self, port: int | None = None) -> dict[str, Any]:
        return {
            "NAME": "postgres",
            "USER": "postgres",
            "PASSWORD": "",
            "HOST": "127.0.0.1",
            "PORT": str(port or self.cluster.port),
            "OPTIONS": {"sslmode": "disable", "gssencmode": "disable"},
        }

    @contextmanager
    def in_use(self) -> Iterator[None]:
        connection = connections[ALIAS]
        before, current = dict(connection.settings_dict), CurrentDatabase.current
        connection.close()
        connection.settings_dict.update(self.place())
        CurrentDatabase.current = ALIAS
        try:
            self.be_ready()
            yield
        finally:
            CurrentDatabase.current = current
            connection.close()
            connection.settings_dict.update(before)

    def be_ready(self) -> None:
        """Up, whatever the last test did to it, and with our tables."""
        if not self.is_up():
            self.start()
        if not self.is_migrated:
            call_command("migrate", database=ALIAS, verbosity=0)
            self.is_migrated = True

    def is_up(self) -> bool:
        return self.cluster.process is not None and self.cluster.process.poll() is None

    def remove(self) -> None:
        self.cluster.remove()

    def clean(self) -> None:
        tables = ", ".join(f"django_tasks_retry_{name}" for name in TABLES.split(", "))
        with connections[ALIAS].cursor() as cursor:
            cursor.execute(f"TRUNCATE {tables}, auth_group CASCADE")

    def stop(self, how: int = signal.SIGINT) -> None:
        self.cluster.stop(how)
        connections[ALIAS].close()

    def start(self) -> None:
        self.cluster.start()

    def end_backends(self) -> int:
        """The process ids of everybody else."""
        with connections[ALIAS].cursor() as cursor:
            cursor.execute(
                "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            return int(cursor.fetchone()[0])

    def be_read_only(self, *, value: str) -> None:
        with connections[ALIAS].cursor() as cursor:
            cursor.execute("SET default_transaction_read_only = off")
            cursor.execute(f"ALTER SYSTEM SET default_transaction_read_only = {value}")
            cursor.execute("SELECT pg_reload_conf()")

    @contextmanager
    def crowded(self) -> Iterator[None]:
        """Every connection that the server has to give is taken, and nobody else has one."""
        connections[ALIAS].close()
        with psycopg.connect(**self.direct(), autocommit=True) as mine:
            taken = [mine]
            quiet = 0
            while quiet < 3:  # in a row: the place of one who is just leaving may be taken by who comes back
                with suppress(psycopg.OperationalError):
                    while True:
                        taken.append(psycopg.connect(**self.direct()))
                others = mine.execute(END_OTHERS, [[one.info.backend_pid for one in taken]]).fetchall()
                quiet = 0 if others else quiet + 1
            yield
            for connection in taken[1:]:
                connection.close()

    def direct(self) -> dict[str, Any]:
        return {"host": "127.0.0.1", "port": self.cluster.port, "user": "postgres", "dbname": "postgres"}

    def proxy(self) -> Proxy:
        return Proxy(self.cluster.port)


@contextmanager
def used_once(server: Server, blocker: Any) -> Iterator[Any]:
    """A server of a test's own, and gone with it."""
    try:
        with blocker.unblock(), server.in_use():
            yield server
    finally:
        server.remove()


def answered(verb: Callable[[], T]) -> T | None:
    """Return its result, or None if the server gives no answer."""
    try:
        return verb()
    except Error:
        connections[ALIAS].close()
        return None


def wait_until_all_finished() -> None:
    wait_for(lambda: answered(lambda: not Task.objects.unfinished().exists()), "everything finished", 60)
