"""Notify: wake workers with NOTIFY after the commit, and send `task_enqueued` for each new task.

NOTIFY takes a lock that serialises commits, so it is never part of the caller's transaction: a thread with a connection
of its own sends it, for all queues that gathered while the last one was in flight. A process that ends waits a moment
for unsent messages. A lost notification costs one poll interval, so no error of sending one reaches the caller, whose
task is stored.
"""

import atexit
import logging
import os
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from ... import registry
from ...compat import is_heard, task_enqueued
from ...models import Task
from ..engines import engine_for

CHANNEL = "django_tasks_retry"
COOLDOWN_SECONDS = 0.005  # a lone task notifies at once, a burst two hundred times a second
IDLE_SECONDS = 2.0
FAREWELL_SECONDS = 1.0
logger = logging.getLogger("django_tasks_retry.wakeup")


class WakeUpKind(StrEnum):
    """The subject of a message: a queue (WORK), a task id (CANCELLED) or a listener's token (TEST).

    MORE names a queue as WORK does, with the number of workers to wake before it.
    """

    WORK = "work"
    MORE = "more"
    CANCELLED = "cancelled"
    TEST = "test"


class WakeUp(NamedTuple):
    kind: WakeUpKind
    subject: str
    sender: int = 0  # the session that sent it, the same for all who hear it

    def __str__(self) -> str:
        return f"{self.kind}:{self.subject}"


def read_message(text: str, sender: int = 0) -> WakeUp | None:
    """The message behind a text of the channel; None for one of another version."""
    kind, _, subject = text.partition(":")
    return WakeUp(WakeUpKind(kind), subject, sender) if kind in set(WakeUpKind) else None


def notify_work_on_commit(queues: Iterable[str], using: str) -> None:
    """Wake the workers that serve these queues, after the commit."""
    notify_on_commit((WakeUp(WakeUpKind.WORK, queue) for queue in queues), using)


def notify_cancelled_on_commit(ids: Iterable[UUID], using: str) -> None:
    """Notify the workers that run these tasks after the commit, before their next renewal."""
    notify_on_commit((WakeUp(WakeUpKind.CANCELLED, str(task_id)) for task_id in ids), using)


def notify_work(queues: Iterable[str], using: str) -> None:
    """Wake them at once and by this connection: for processes that start no thread."""
    notify_now((WakeUp(WakeUpKind.WORK, queue) for queue in queues), using)


def notify_cancelled(ids: Iterable[UUID], using: str) -> None:
    """Wake the workers that run these cancelled tasks, at once and by this connection."""
    notify_now((WakeUp(WakeUpKind.CANCELLED, str(task_id)) for task_id in ids), using)


def notify_more(workers: int, queue: str, using: str) -> None:
    """Wake this many more workers, at once and by this connection: the first ones cannot take all the work."""
    notify_now([WakeUp(WakeUpKind.MORE, f"{workers}:{queue}")], using)


def notify_now(messages: Iterable[WakeUp], using: str) -> None:
    if texts := sorted(map(str, messages)):
        with left_to_polling():
            engine_for(using).notify(CHANNEL, texts)


def notify_on_commit(messages: Iterable[WakeUp], using: str) -> None:
    """Send messages after the commit. Left out if the caller commits by hand, for which Django has no hook."""
    if engine_for(using).can_notify and (texts := frozenset(map(str, messages))):
        send, connection = Notification(using, texts), connections[using]
        if connection.autocommit and not connection.in_atomic_block:
            send()  # as on_commit() would, in a quarter of the time
        else:
            with left_to_polling():
                transaction.on_commit(send, using=using, robust=True)


@dataclass(frozen=True, slots=True)
class Notification:
    """The hook that runs after the commit. It never raises, so hooks of the project that follow it run, too."""

    using: str
    messages: frozenset[str]

    def __call__(self) -> None:
        with left_to_polling():
            notifier(self.using).send(self.messages)


@contextmanager
def left_to_polling() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        logger.debug("wake-up not sent, workers will poll: %s", error)


class Notifier:
    """Sends from a thread that ends, with its connection, once it had nothing to send for a while."""

    def __init__(self, using: str) -> None:
        self.using = using
        self.gathered: set[str] = set()
        self.sending = False
        self.changed = threading.Condition()
        self.thread: threading.Thread | None = None

    def send(self, messages: frozenset[str]) -> None:
        """Raises if no thread can be started: in a process that ends, or that has as many as it may."""
        with self.changed:
            if self.thread is None:
                thread = threading.Thread(target=self.run, name="django_tasks_retry.wakeup", daemon=True)
                thread.start()
                self.thread = thread
            self.gathered |= messages
            self.changed.notify_all()

    def run(self) -> None:
        try:
            connections[self.using] = unpooled(self.using)
            while messages := self.take():
                self.notify(messages)
                self.rest()
        finally:
            connections[self.using].close()

    def take(self) -> set[str]:
        with self.changed:
            self.changed.wait_for(lambda: self.gathered, timeout=IDLE_SECONDS)
            messages, self.gathered = self.gathered, set()
            self.sending = bool(messages)
            if not messages:
                self.thread = None
            return messages

    def rest(self) -> None:
        with self.changed:
            self.sending = False
            self.changed.notify_all()
        time.sleep(COOLDOWN_SECONDS)

    def wait_until_sent(self) -> None:
        with self.changed:
            self.changed.wait_for(lambda: not (self.gathered or self.sending), timeout=FAREWELL_SECONDS)

    def notify(self, messages: set[str]) -> None:
        with left_to_polling():
            try:
                engine_for(self.using).notify(CHANNEL, sorted(messages))
            except Exception:
                connections[self.using].close()
                raise


def unpooled(using: str) -> BaseDatabaseWrapper:
    """A connection of this thread's own: one out of a pool would be missing there for as long as it is kept."""
    connection = connections.create_connection(using)
    place = connection.settings_dict
    kept = {name: value for name, value in place["OPTIONS"].items() if name != "pool"}
    connection.settings_dict = {**place, "OPTIONS": kept}
    return connection


_notifiers: dict[str, Notifier] = {}


def notifier(using: str) -> Notifier:
    return _notifiers.get(using) or _notifiers.setdefault(using, Notifier(using))


@atexit.register
def send_notifications() -> None:
    """Send everything before the process ends, and its threads with it."""
    for one in list(_notifiers.values()):
        one.wait_until_sent()


os.register_at_fork(after_in_child=_notifiers.clear)


def is_enqueue_heard() -> bool:
    return is_heard(task_enqueued, logging.DEBUG)


def send_enqueued(tasks: Iterable[Task]) -> None:
    """Send `task_enqueued` for each new task. The holder of a unique key was sent when it was enqueued."""
    if is_enqueue_heard():
        for task in tasks:
            if not task.already_enqueued:
                registry.hooks.send_enqueued(task)
