"""Runs coroutines: one event loop, in a thread of its own, for all coroutines of a child."""

from __future__ import annotations

import asyncio
import logging
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from time import monotonic
from typing import Any

from ...taskqueue import Failed, Outcome, Released
from ..logs import log_exception
from ..shared.inflight import InFlightTable
from .around import run_async_within
from .attempt import Attempt, conclude, revoked, start, too_late, valid_from
from .attempt_logs import take
from .connections import LoopConnections
from .thread_executor import exit_broken

logger = logging.getLogger(__name__)
BLOCKED_SECONDS = 1.0


class LoopExecutor:
    def __init__(self, inflight: InFlightTable, lease: float, report: Callable[[Attempt], None]) -> None:
        self.inflight, self.lease_seconds, self.report = inflight, lease, report
        self.waiting: set[Attempt] = set()
        self.running: dict[Attempt, asyncio.Task[None]] = {}
        self.connections = LoopConnections()
        self.asked_at: float | None = None
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, daemon=True, name="django_tasks_retry.loop").start()

    def _run(self) -> None:
        """A coroutine may stop the loop, or raise SystemExit through it; it stops it for nobody."""
        while not self.loop.is_closed():
            try:
                self.loop.run_forever()
            except BaseException:
                log_exception(logger, "a coroutine raised out of the event loop, which goes on")
        exit_broken()

    # Called by the child's main thread

    def submit(self, attempt: Attempt) -> None:
        self.waiting.add(attempt)
        self.call(self._start, attempt)

    def withdraw_waiting(self) -> list[Attempt]:
        """Attempts that have not started, and now will not: whoever takes one out of `waiting` owns it."""
        return [attempt for attempt in list(self.waiting) if self._take(attempt)]

    def interrupt(self, attempt: Attempt) -> None:
        self.call(self._cancel, attempt)

    def watch(self) -> None:
        """Ask for a sign of life where none is awaited yet."""
        if self.asked_at is None and (self.waiting or self.running):
            self.asked_at = monotonic()
            self.call(self._answer)

    @property
    def is_blocked(self) -> bool:
        """Asked a while ago, and no sign yet: a coroutine does not yield."""
        asked_at = self.asked_at  # which the loop's thread may take away at any moment
        return asked_at is not None and monotonic() - asked_at > BLOCKED_SECONDS

    def _take(self, attempt: Attempt) -> bool:
        """False where the other thread was first."""
        try:
            self.waiting.remove(attempt)
        except KeyError:
            return False
        return True

    def call(self, function: Callable[..., None], *args: Any) -> None:
        try:
            self.loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # a coroutine closed the loop
            exit_broken()

    # In the loop's own thread

    def _answer(self) -> None:
        self.asked_at = None

    def _start(self, attempt: Attempt) -> None:
        if not self._take(attempt):
            return  # it was withdrawn
        task = self.running[attempt] = self.loop.create_task(self._execute(attempt))
        task.add_done_callback(lambda _: self._done(attempt))

    def _cancel(self, attempt: Attempt) -> None:
        if attempt in self.running:
            self.running[attempt].cancel()

    async def _execute(self, attempt: Attempt) -> None:
        start(attempt, self.inflight)
        try:
            outcome = await self._outcome_of(attempt)
        except BaseException as error:
            outcome = Failed(attempt.lease, error)
        if attempt.report is None:  # else it was given back, since another coroutine blocked the loop
            attempt.report = conclude(attempt, outcome)
        else:
            take(attempt.lease)  # what it logged, which nobody will ask for

    async def _outcome_of(self, attempt: Attempt) -> Outcome:
        if attempt.is_revoked or attempt.interruption is not None:
            return revoked(attempt.lease)
        if attempt.started >= valid_from(attempt, self.inflight) + self.lease_seconds:
            return too_late(attempt.lease)
        outcome: Outcome = await interruptible(run_async_within(attempt), attempt)
        return outcome

    def _done(self, attempt: Attempt) -> None:
        """The one end of every coroutine, also of one that was cancelled before its first step."""
        try:
            self.running.pop(attempt, None)
            self.connections.reset()
            if attempt.ended:
                return  # it was given back meanwhile
            attempt.ended = monotonic()
            if attempt.report is None:
                attempt.started = attempt.started or attempt.ended
                reason = "its coroutine was cancelled before it began"
                attempt.report = conclude(attempt, Released(attempt.lease, reason, delay=1.0))
            self.inflight.end(attempt.place, attempt.ended)
            self.report(attempt)
        except BaseException:
            exit_broken()


@types.coroutine
def interruptible(inner: Coroutine[Any, Any, Any], attempt: Attempt) -> Generator[Any, Any, Any]:
    """Await `inner`; a cancellation reaches it as the attempt's own interruption (TaskTimeout, TaskCancelled)."""
    steps: Generator[Any, Any, Any] = inner.__await__()
    value, error = None, None
    while True:
        try:
            waits_for = steps.send(value) if error is None else steps.throw(error)
        except StopIteration as end:
            return end.value
        value, error = None, None
        try:
            value = yield waits_for
        except asyncio.CancelledError as cancelled:
            error = attempt.interruption or cancelled
            if attempt.interruption and (task := asyncio.current_task()):
                task.uncancel()
        except BaseException as raised:
            error = raised
