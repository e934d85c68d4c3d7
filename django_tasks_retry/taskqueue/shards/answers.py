"""Whether a shard answers. A thread asks, so that no caller waits for a frozen server longer than `PATIENCE`."""

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import TypeVar

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ...conf import is_sharded, shard_backends
from ...errors import ShardAway
from ..database import database

T = TypeVar("T")
FRESH, PATIENCE, AGAIN, IDLE = 0.25, 0.5, 0.5, 10.0
"""Seconds: for which an answer counts, that a caller waits for one, between two tries, and until the thread ends."""

ALL_SECONDS = 2.0
TIMEOUTS = {"connect_timeout": 2, "tcp_user_timeout": 3000, "keepalives_idle": 5}


class Probe:
    """Asks one database. While it is away, callers are told so at once, and the thread goes on to ask."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None
        self.answered_at = self.failed_at = self.asked_at = float("-inf")
        self.is_away = False

    def is_up(self) -> bool:
        asked = monotonic()
        if asked - self.answered_at < FRESH:
            return True
        with self.changed:
            self.ask(asked)
            if not self.is_away:
                self.changed.wait_for(lambda: max(self.answered_at, self.failed_at) > asked, PATIENCE)
                self.is_away = self.answered_at <= asked
            return not self.is_away

    def ask(self, asked: float) -> None:
        self.asked_at = asked
        if self.thread is None:
            self.is_away = False
            self.thread = threading.Thread(target=self.run, name=f"django_tasks_retry.{self.using}", daemon=True)
            self.thread.start()
        self.changed.notify_all()

    def run(self) -> None:
        connection = own_connection(self.using)
        while self.is_wanted():
            answered = self.try_once(connection)
            with self.changed:
                if answered:
                    self.answered_at, self.is_away = monotonic(), False
                else:
                    self.failed_at = monotonic()
                self.changed.notify_all()
                if not answered:
                    self.changed.wait(AGAIN)
        connection.close()

    def is_wanted(self) -> bool:
        """Wait for the next question. End after a while without one."""
        with self.changed:
            self.changed.wait_for(lambda: self.is_away or self.asked_at > self.answered_at, IDLE)
            if monotonic() - self.asked_at > IDLE:
                self.thread = None
            return self.thread is not None

    def try_once(self, connection: BaseDatabaseWrapper) -> bool:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT 1")
        except Exception:  # noqa: BLE001 - whatever the driver raises: it does not answer
            connection.close()
            return False
        return True


def own_connection(using: str) -> BaseDatabaseWrapper:
    connection = connections.create_connection(using)
    place = connection.settings_dict
    given = {name: value for name, value in place["OPTIONS"].items() if name != "pool"}
    connection.settings_dict = {**place, "CONN_HEALTH_CHECKS": False, "OPTIONS": given | TIMEOUTS}
    return connection


_probes: dict[str, Probe] = {}
os.register_at_fork(after_in_child=_probes.clear)


def probe_of(backend: str) -> Probe:
    using = database(backend)
    return _probes.get(using) or _probes.setdefault(using, Probe(using))


def is_up(backend: str) -> bool:
    """Return whether the database of this shard answers."""
    return probe_of(backend).is_up()


def check_answers(backend: str) -> None:
    """Raise ShardAway if the backend is a shard whose database does not answer."""
    if is_sharded(backend) and not is_up(backend):
        raise ShardAway(database(backend))


def doubt(backend: str) -> None:
    """Ask anew before the next call: a statement there has failed."""
    probe_of(backend).answered_at = float("-inf")


def in_time(backend: str, question: Callable[[], T]) -> T:
    """Ask from a thread, in time. ShardAway if there is no answer: a server may freeze at any statement."""
    answers: list[T] = []

    def ask() -> None:
        with suppress(Error):
            answers.append(question())
        connections[database(backend)].close()

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    if not answers:
        doubt(backend)
        raise ShardAway(database(backend))
    return answers[0]


def ask_all(backend: str, question: Callable[[str], T]) -> tuple[dict[str, T], list[str]]:
    """Ask every shard in a thread of its own. Return the answers by backend, and the databases that gave none.

    An error of a shard that answers is raised.
    """
    shards = shard_backends(backend)
    if len(shards) == 1:
        return {backend: question(backend)}, []
    answers: dict[str, T] = {}
    errors: dict[str, Exception] = {}

    def ask(shard: str) -> None:
        try:
            if is_up(shard):
                answers[shard] = question(shard)
        except Exception as error:  # noqa: BLE001 - raised below, in the thread that asks
            errors[shard] = error
        finally:
            connections[database(shard)].close()

    threads = [threading.Thread(target=ask, args=[shard], daemon=True) for shard in shards]
    until = monotonic() + ALL_SECONDS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, until - monotonic()))
    given = {shard: answers[shard] for shard in shards if shard in answers}
    for shard, error in list(errors.items()):
        if is_up(shard):
            raise error
    return given, [database(shard) for shard in shards if shard not in given]
