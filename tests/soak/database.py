"""The database of the soak: a PostgreSQL server of its own that may be crashed, or a file of SQLite."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from tests.pg import PgCluster, version

T = TypeVar("T")


class PostgreSQL:
    def __init__(self, folder: Path) -> None:
        # A server that recovers from a crash waits this long for clients whose first word is in a black hole.
        self.cluster = PgCluster(version(), {"authentication_timeout": "2s"})
        self.cluster.initdb()
        self.cluster.start()

    @property
    def port(self) -> int | None:
        return self.cluster.port

    def place(self, port: int | None = None) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.postgresql",
            "NAME": "postgres",
            "USER": "postgres",
            "HOST": "127.0.0.1",
            "PORT": str(port or self.cluster.port),
            "OPTIONS": {"sslmode": "disable", "gssencmode": "disable"},
        }

    def direct(self) -> dict[str, Any]:
        """For the soak itself, which waits for nobody: it may have to wake up the one it would wait for."""
        place = self.place()
        return place | {"OPTIONS": place["OPTIONS"] | {"options": "-c statement_timeout=5s -c lock_timeout=300ms"}}

    def freeze(self, seconds: float) -> Callable[[], None]:
        """Stop all its processes, which go on by themselves after so many seconds: whoever asks meanwhile must wait."""
        server = self.cluster.process
        assert server is not None
        pids = [server.pid, *children_of(server.pid)]

        def thaw() -> None:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        threading.Timer(seconds, thaw).start()
        return thaw

    def restart_hard(self) -> None:
        """As after a power cut: all its processes are gone at once, and the log is replayed."""
        server = self.cluster.process
        assert server is not None
        server.send_signal(signal.SIGSTOP)  # lest it forks one more that we would not know of
        for pid in [*children_of(server.pid), server.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        server.wait(30)
        self.start_again()

    def start_again(self) -> None:
        """The last of the killed may still be on its way out, with its hand on the memory they shared."""
        for _ in range(50):
            with suppress(RuntimeError):
                return self.cluster.start()
            time.sleep(0.1)
        raise RuntimeError("the server does not start again")

    def remove(self) -> None:
        self.cluster.remove()


def children_of(pid: int) -> list[int]:
    with suppress(OSError):
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()]
    return []


class SQLite:
    port: int | None = None

    def __init__(self, folder: Path) -> None:
        self.file = folder / "soak.sqlite3"

    def place(self, port: int | None = None) -> dict[str, Any]:
        return {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": str(self.file),
            "OPTIONS": {
                "transaction_mode": "IMMEDIATE",
                "timeout": 20,
                "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
            },
        }

    def direct(self) -> dict[str, Any]:
        place = self.place()
        return place | {"OPTIONS": place["OPTIONS"] | {"timeout": 1}}

    def remove(self) -> None:
        """The file goes with its folder."""


DATABASES = {"postgresql": PostgreSQL, "sqlite": SQLite}


def tried(verb: Callable[[], T]) -> T | None:
    """The verb's answer; None where the database is away, which under fire is no news."""
    from django.db import Error, connection

    try:
        return verb()
    except Error:
        connection.close()
        return None
