"""Runs plain functions: a fixed number of threads that take attempts from one line."""

from __future__ import annotations

import ctypes
import logging
import os
import threading
from collections.abc import Callable
from contextvars import copy_context
from queue import Empty, SimpleQueue
from time import monotonic

from ...taskqueue import Failed, Outcome
from ..logs import log_exception
from ..shared.inflight import InFlightTable
from .around import run_within
from .attempt import Attempt, conclude, revoked, start, too_late, valid_from
from .connections import FreshConnections

EXIT_BROKEN = 71
logger = logging.getLogger(__name__)


def exit_broken() -> None:
    """After an error of our own beside a function, as for want of memory: the process ends, its tasks go back."""
    log_exception(logger, "an executor failed; its process will be replaced")
    os._exit(EXIT_BROKEN)


class ThreadExecutor:
    def __init__(self, count: int, inflight: InFlightTable, lease: float, report: Callable[[Attempt], None]) -> None:
        self.waiting: SimpleQueue[Attempt] = SimpleQueue()
        self.threads = [ExecutorThread(self.waiting, inflight, lease, report) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def submit(self, attempt: Attempt) -> None:
        self.waiting.put(attempt)

    def withdraw_waiting(self) -> list[Attempt]:
        """Attempts that have not started, out of the line again."""
        withdrawn = []
        while not self.waiting.empty():
            try:
                withdrawn.append(self.waiting.get_nowait())
            except Empty:
                break
        return withdrawn

    def interrupt(self, attempt: Attempt) -> None:
        for thread in self.threads:
            thread.interrupt(attempt)


class ExecutorThread(threading.Thread):
    def __init__(
        self,
        waiting: SimpleQueue[Attempt],
        inflight: InFlightTable,
        lease: float,
        report: Callable[[Attempt], None],
    ) -> None:
        super().__init__(daemon=True, name="django_tasks_retry.executor")
        self.waiting, self.inflight, self.lease_seconds, self.report_to = waiting, inflight, lease, report
        self.current: Attempt | None = None
        self.was_interrupted = False
        self.gate = threading.Lock()

    def run(self) -> None:
        self.connections = FreshConnections()
        while True:
            try:
                self.execute(self.waiting.get())
            except BaseException:
                exit_broken()

    def execute(self, attempt: Attempt) -> None:
        start(attempt, self.inflight)
        try:
            self.current = attempt
            with self.connections:
                outcome = self.outcome_of(attempt)
            attempt.report = attempt.report or conclude(attempt, outcome)
        except BaseException as error:
            attempt.report = conclude(attempt, Failed(attempt.lease, error))
        self.close(attempt)
        if attempt.interruption is not None:
            self.connections.discard()
        self.report_to(attempt)

    def outcome_of(self, attempt: Attempt) -> Outcome:
        if attempt.is_revoked or attempt.interruption is not None:
            return revoked(attempt.lease)
        if attempt.started >= valid_from(attempt, self.inflight) + self.lease_seconds:
            return too_late(attempt.lease)
        # In a context of its own: a language or time zone that a task activates ends with it.
        return copy_context().run(run_within, attempt)

    def interrupt(self, attempt: Attempt) -> None:
        """Raise the attempt's interruption in this thread, if it still runs that very attempt."""
        with self.gate:
            if self.current is attempt and self.ident and attempt.interruption:
                self.was_interrupted = True
                raise_in(self.ident, type(attempt.interruption))

    def close(self, attempt: Attempt) -> None:
        """From here on the thread is our own again: an interruption that was not delivered is withdrawn."""
        try:
            with self.gate:
                self.current = None
                if self.was_interrupted:
                    self.was_interrupted = False
                    raise_in(self.ident or 0, None)
        except BaseException:  # it was delivered at this very moment; there is only one
            self.close(attempt)
        attempt.ended = monotonic()
        self.inflight.end(attempt.place, attempt.ended)


def raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error) if error else None)
