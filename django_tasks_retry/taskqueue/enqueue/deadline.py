"""The deadline of an enqueue: a frozen server, or a network that swallows packets, gives no error of its own.

A thread shuts the socket when the time is over, and the driver fails in its ordinary place. A signal would reach the
main thread only, and producers have many threads.
"""

import logging
import math
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Any

from django.db import Error, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from ...conf import options
from ...errors import EnqueueTimeout
from ...models import Task
from ..database import SHUT_AGAIN_SECONDS, shut_socket
from ..engines import engine_for

SHORTEST_CONNECT = 2  # seconds that the driver gives each host at least
logger = logging.getLogger("django_tasks_retry")


class EnqueueDeadline:
    """The time of one enqueue. A list that is sent in chunks has this time for each of them."""

    def __init__(self, connection: BaseDatabaseWrapper, seconds: float) -> None:
        self.connection, self.seconds = connection, seconds
        self.lock, self.ended = threading.Lock(), threading.Event()
        self.has_passed = False
        self.renew()

    def start(self) -> None:
        self.connection.get_connection_params = self.connection_params  # type: ignore[method-assign]
        try:
            threading.Thread(target=self.watch, name="django_tasks_retry.deadline", daemon=True).start()
        except RuntimeError as error:  # the process ends, or has as many threads as it may
            logger.debug("no deadline for this enqueue: %s", error)

    def connection_params(self) -> dict[str, Any]:
        """Bound the time to connect, in which there is no socket to shut. Nothing reconnects when the time is over."""
        if self.has_passed:
            raise OperationalError("The time of this enqueue is over.")
        params = type(self.connection).get_connection_params(self.connection)
        hosts = str(params.get("host", "")).count(",") + 1
        bound = max(SHORTEST_CONNECT, math.ceil(self.seconds / hosts))
        return params | {"connect_timeout": min(bound, int(params.get("connect_timeout") or bound))}

    def renew(self) -> None:
        self.shut_at = monotonic() + self.seconds

    def each(self, chunks: Iterable[list[Task]]) -> Iterator[list[Task]]:
        """Yield chunks, each with the whole time. The time in which the project makes the next one does not count."""
        for chunk in chunks:
            self.renew()
            yield chunk
            self.shut_at = math.inf
        self.renew()

    def watch(self) -> None:
        """Shut the socket when the time is over, and again: the error may lead to a ROLLBACK without an answer."""
        while not self.ended.wait(max(0.0, min(self.shut_at - monotonic(), self.seconds))):
            with self.lock:
                if monotonic() >= self.shut_at and not self.ended.is_set():
                    self.has_passed = True
                    self.shut_at = monotonic() + SHUT_AGAIN_SECONDS
                    shut_socket(self.connection.connection)

    def end(self) -> None:
        with self.lock:
            self.ended.set()
        del self.connection.get_connection_params
        if self.has_passed:
            if self.connection.connection is not None:
                self.connection.connection.close()  # also for a pool, which would lend it with its socket shut
            self.connection.close()


@contextmanager
def enqueue_deadline(tasks: Sequence[Task], using: str) -> Iterator[EnqueueDeadline]:
    """Raise EnqueueTimeout if the database does not answer within OPTIONS["ENQUEUE_TIMEOUT"].

    Does nothing inside the caller's transaction: its connection and its COMMIT are the caller's.
    """
    connection = connections[using]
    given = [seconds for each in {task.backend for task in tasks} if (seconds := options(each).enqueue_timeout)]
    deadline = EnqueueDeadline(connection, min(given, default=math.inf))
    is_callers = connection.in_atomic_block or (connection.connection is not None and not connection.autocommit)
    if not given or is_callers or not engine_for(using).has_server:
        yield deadline
        return
    is_connected = False
    deadline.start()
    try:
        connection.close_if_health_check_failed()
        connection.ensure_connection()
        is_connected = True
        yield deadline
    except Error as error:
        if deadline.has_passed or monotonic() >= deadline.shut_at:
            raise EnqueueTimeout([task.id for task in tasks], deadline.seconds, may_exist=is_connected) from error
        raise
    finally:
        deadline.end()
