"""Executors of attempts: threads for plain functions, one event loop for all coroutines of a child."""

import asyncio
import ctypes
import logging
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any

from ...taskqueue import Failed, Released
from ..logs import log_exception
from ..shared.inflight import InFlightTable
from .attempt import Attempt, conclude, refusal, start
from .connections import FreshConnections, LoopConnections
from .pipeline import note_outcome, run_attempt, run_attempt_async
from .process import exit_broken


class ThreadExecutor:
    def __init__(self, count: int, inflight: InFlightTable, lease: float, report: Callable[[Attempt], None]) -> None:
        self.waiting: SimpleQueue[Attempt] = SimpleQueue()
        self.threads = [ExecutorThread(self.waiting, inflight, lease, report) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def submit(self, attempt: Attempt) -> None:
        self.waiting.put(attempt)

    def withdraw_waiting(self) -> list[Attempt]:
        """Return attempts that have not started, out of the queue again."""
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
        self, waiting: SimpleQueue[Attempt], inflight: InFlightTable, lease: float, report: Callable[[Attempt], None]
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
                if refused := refusal(attempt, self.inflight, self.lease_seconds):
                    note_outcome(attempt, refused)
                else:
                    # In a context of its own: a language or time zone that a task activates ends with it.
                    copy_context().run(run_attempt, attempt)
        except BaseException as error:
            attempt.report = conclude(attempt, Failed(attempt.lease, error))
        self.close(attempt)
        if attempt.interruption is not None:
            self.connections.discard()
        self.report_to(attempt)

    def interrupt(self, attempt: Attempt) -> None:
        """Raise the attempt's interruption in this thread, if it still runs that very attempt."""
        with self.gate:
            if self.current is attempt and self.ident and attempt.interruption:
                self.was_interrupted = True
                raise_in(self.ident, type(attempt.interruption))

    def close(self, attempt: Attempt) -> None:
        """Withdraw an interruption that was not delivered: from here on the thread is the executor's again."""
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
        """Run the loop again if a coroutine stops it, or raises SystemExit through it."""
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
        """Return attempts that will not start: the thread that takes one out of `waiting` owns it."""
        return [attempt for attempt in list(self.waiting) if self._take(attempt)]

    def interrupt(self, attempt: Attempt) -> None:
        self.call(self._cancel, attempt)

    def probe(self) -> None:
        """Ask for a sign of life, unless one is awaited."""
        if self.asked_at is None and (self.waiting or self.running):
            self.asked_at = monotonic()
            self.call(self._answer)

    @property
    def is_blocked(self) -> bool:
        """Return whether a coroutine does not yield: the loop was asked a while ago, and has not answered."""
        asked_at = self.asked_at  # which the loop's thread may take away at any moment
        return asked_at is not None and monotonic() - asked_at > BLOCKED_SECONDS

    def _take(self, attempt: Attempt) -> bool:
        """Take an attempt out of `waiting`. Return False if the other thread was first."""
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
            if refused := refusal(attempt, self.inflight, self.lease_seconds):
                note_outcome(attempt, refused)
            else:
                await interruptible(run_attempt_async(attempt), attempt)
        except BaseException as error:
            note_outcome(attempt, Failed(attempt.lease, error))

    def _done(self, attempt: Attempt) -> None:
        """End every coroutine here, also one that was cancelled before its first step."""
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
