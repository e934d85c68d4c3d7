"""Processes forked for code that must not run in the supervisor.

One sends signals about tasks that the supervisor has ended or enqueued: receivers are the project's code. If it fails
or takes too long, the log says for which tasks the signal is missing; if the supervisor dies before, it is not sent.
Another one looks for causes of alerts once a minute, on one worker, and sends them.
"""

import logging
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from uuid import UUID

from django.db import connections
from django.db.utils import Error

from ... import bridge
from ...analysis.alerts import send_alerts
from ...clock import now
from ...conf import options
from ...display.scope import Scope, read_standing
from ...middleware import SIGNAL_PROCESS
from ...models import Task
from ...taskqueue import Receipt, database
from ...taskqueue.enqueue import is_enqueue_heard, send_enqueued
from ..child.pipeline import is_finish_heard, send_result
from ..child.process import run_child
from ..logs import log_exception
from ..shared.interval import Interval

logger = logging.getLogger(__name__)
LONGEST_SECONDS = 30.0
MOST_AT_ONCE = 1000
ALERT_SECONDS = 60.0
PAUSE_FACTOR = 10  # the search for alerts rests for so many times as long as the last one took


class OwnProcess:
    """A process for code that must not run in the supervisor, at most one at a time, and not for long."""

    def __init__(self, backend: str, close_in_child: Callable[[], None]) -> None:
        self.backend, self.close_in_child = backend, close_in_child
        self.pid: int | None = None
        self.kill_at = 0.0

    def fork(self, run: Callable[[], None]) -> bool:
        """Return False if the system has no room for another process."""
        connections.close_all()
        supervisor_pid = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            return False
        if pid == 0:
            self.close_in_child()
            run_child(run, SIGNAL_PROCESS, self.backend, supervisor_pid)
        self.pid, self.kill_at = pid, monotonic() + LONGEST_SECONDS
        return True

    def kill_if_late(self) -> None:
        if self.pid is not None and monotonic() > self.kill_at:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


class SignalProcess(OwnProcess):
    """A process that sends signals; outcomes recorded meanwhile wait for the next."""

    def __init__(self, backend: str, close_in_child: Callable[[], None]) -> None:
        super().__init__(backend, close_in_child)
        self.waiting: list[Receipt | UUID] = []
        self.sending: list[Receipt | UUID] = []

    def send(self, receipt: Receipt) -> None:
        if is_finish_heard(receipt):
            self.waiting.append(receipt)

    def send_enqueued(self, tasks: Sequence[UUID]) -> None:
        """Send signals for tasks of schedules, which no caller enqueues."""
        if is_enqueue_heard():
            self.waiting.extend(tasks)

    @property
    def is_done(self) -> bool:
        return self.pid is None and not self.waiting

    def tick(self) -> None:
        if self.pid is None and self.waiting:
            self.start()
        else:
            self.kill_if_late()

    def start(self) -> None:
        self.sending, self.waiting = self.waiting[:MOST_AT_ONCE], self.waiting[MOST_AT_ONCE:]
        if not self.fork(lambda: send_all(self.sending, self.backend)):
            self.sending, self.waiting = [], self.sending + self.waiting

    def note_exit(self, status: int) -> None:
        if status != 0:
            ids = ", ".join(str(id_of(about)) for about in self.sending[:20])
            logger.error("signals may not have been sent for %d tasks: %s", len(self.sending), ids)
        self.pid, self.sending = None, []


def id_of(about: Receipt | UUID) -> UUID:
    return about if isinstance(about, UUID) else about.lease.id


def send_all(subjects: Sequence[Receipt | UUID], backend: str) -> None:
    """Send `task_finished` for each receipt, `task_enqueued` for each id."""
    for about in subjects:
        try:
            if isinstance(about, UUID):
                send_enqueued(Task.objects.using(database(backend)).filter(pk=about))
            else:
                send_result(bridge.read_result(str(about.lease.id), about.lease.backend), about.error)
        except Exception:
            log_exception(logger, "signals of %s could not be sent", id_of(about))


class AlertProcess(OwnProcess):
    def __init__(self, backend: str, close_in_child: Callable[[], None]) -> None:
        super().__init__(backend, close_in_child)
        self.interval, self.is_elected = Interval(ALERT_SECONDS, at_once=False), False

    def tick(self) -> None:
        if self.pid is not None:
            self.kill_if_late()
        elif self.is_elected and options(self.backend).alerts and self.interval.is_due():
            self.fork(lambda: look(self.backend))

    def note_exit(self, status: int) -> None:
        if status != 0:
            logger.error("alerts may not have been sent: their process ended with status %d", status)
        took = monotonic() - self.kill_at + LONGEST_SECONDS
        self.pid, self.interval.seconds = None, max(ALERT_SECONDS, PAUSE_FACTOR * took)


def look(backend: str) -> None:
    try:
        using = database(backend)
        send_alerts(read_standing(Scope(backend, using, now(using))))
    except Error as error:
        logger.debug("alerts: the database cannot be asked (%s)", error)  # the supervisor says so
