"""Where functions run: threads for plain functions, one event loop for coroutines."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import threading
import types
from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from queue import SimpleQueue
from time import monotonic
from typing import Any

from ..errors import TaskCancelled
from ..taskqueue import Failed, Released
from .attempt import Attempt, run, run_async
from .board import Board
from .hygiene import FreshConnections, SharedConnections

Report = Callable[[Attempt], None]
BLOCKED_SECONDS = 0.5
EXIT_BROKEN = 71
logger = logging.getLogger("django_tasks_retry")


def break_down() -> None:
    """After an error of our own beside a function, as for want of memory: the process ends, its tasks go back."""
    logger.exception("a slot failed; its process will be replaced")
    os._exit(EXIT_BROKEN)


class ThreadSlots:
    """A fixed number of threads that take attempts from one line."""

    def __init__(self, count: int, board: Board, report: Report) -> None:
        self.line: SimpleQueue[Attempt] = SimpleQueue()
        self.slots = [ThreadSlot(self.line, board, report) for _ in range(count)]
        for slot in self.slots:
            slot.start()

    def submit(self, attempt: Attempt) -> None:
        self.line.put(attempt)

    def take_back(self) -> list[Attempt]:
        """Attempts that have not started, out of the line again."""
        waiting = []
        while not self.line.empty():
            try:
                waiting.append(self.line.get_nowait())
            except Exception:
                break
        return waiting

    def interrupt(self, attempt: Attempt) -> None:
        for slot in self.slots:
            slot.interrupt(attempt)


class ThreadSlot(threading.Thread):
    def __init__(self, line: SimpleQueue[Attempt], board: Board, report: Report) -> None:
        super().__init__(daemon=True, name="django_tasks_retry.slot")
        self.line, self.board, self.report_to = line, board, report
        self.current: Attempt | None = None
        self.gate = threading.Lock()

    def run(self) -> None:
        self.connections = FreshConnections()
        while True:
            try:
                self.serve(self.line.get())
            except BaseException:
                break_down()

    def serve(self, attempt: Attempt) -> None:
        attempt.started = monotonic()
        self.board.started(attempt.lease, attempt.started)
        try:
            self.current = attempt
            with self.connections:
                in_time = attempt.started < attempt.valid_until
                # In a context of its own: a language or time zone that a task activates ends with it.
                attempt.outcome = copy_context().run(run, attempt) if in_time else too_late(attempt)
        except BaseException as error:
            attempt.outcome = Failed(attempt.lease, error)
        self.close(attempt)
        if attempt.interruption is not None:
            self.connections.abandon()
        explain(attempt)
        self.report_to(attempt)

    def interrupt(self, attempt: Attempt) -> None:
        """Raise the attempt's interruption in this thread, if it still runs that very attempt."""
        with self.gate:
            if self.current is attempt and self.ident and attempt.interruption:
                raise_in(self.ident, type(attempt.interruption))

    def close(self, attempt: Attempt) -> None:
        """From here on the thread is our own again: an interruption that was not delivered is withdrawn."""
        try:
            with self.gate:
                self.current = None
                raise_in(self.ident or 0, None)
        except BaseException:
            self.close(attempt)
        attempt.ended = monotonic()
        self.board.ended(attempt.lease)


def too_late(attempt: Attempt) -> Released:
    """The whole process was frozen while the attempt stood in line: somebody else may have taken the task."""
    return Released(attempt.lease, "the lease ran out before the task could start")


def explain(attempt: Attempt) -> None:
    """An interruption is raised by its class alone; here it gets its words. One for want of a lease is no failure."""
    error = attempt.outcome.error if isinstance(attempt.outcome, Failed) else None
    interruption = attempt.interruption
    if interruption is None or not isinstance(error, BaseException) or not stems_from(error, type(interruption)):
        return
    if isinstance(interruption, TaskCancelled):
        attempt.outcome = Released(attempt.lease, str(interruption))
    else:
        attempt.outcome = Failed(attempt.lease, interruption.with_traceback(error.__traceback__))


def stems_from(error: BaseException, kind: type[BaseException]) -> bool:
    """A task group wraps what interrupts it."""
    if isinstance(error, BaseExceptionGroup):
        return error.split(kind)[1] is None
    return type(error) is kind


def raise_in(thread_id: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(error) if error else None)


class LoopSlots:
    """One event loop, in a thread of its own, for all coroutines of a child."""

    def __init__(self, board: Board, report: Report) -> None:
        self.board, self.report = board, report
        self.running: dict[Attempt, asyncio.Task[None]] = {}
        self.connections = SharedConnections()
        self.asked_at: float | None = None
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self._run, daemon=True, name="django_tasks_retry.loop").start()

    def _run(self) -> None:
        """A coroutine may stop the loop; it stops it for nobody."""
        while not self.loop.is_closed():
            self.loop.run_forever()

    def submit(self, attempt: Attempt) -> None:
        self.loop.call_soon_threadsafe(self._start, attempt)

    def interrupt(self, attempt: Attempt) -> None:
        self.loop.call_soon_threadsafe(self._cancel, attempt)

    def ask_for_sign_of_life(self) -> None:
        self.asked_at = monotonic()
        self.loop.call_soon_threadsafe(self._live)

    @property
    def is_blocked(self) -> bool:
        """Asked a while ago, and no sign yet."""
        return self.asked_at is not None and monotonic() - self.asked_at > BLOCKED_SECONDS

    def _live(self) -> None:
        self.asked_at = None

    def _start(self, attempt: Attempt) -> None:
        self.running[attempt] = self.loop.create_task(self._serve(attempt))

    def _cancel(self, attempt: Attempt) -> None:
        if attempt in self.running:
            self.running[attempt].cancel()

    async def _serve(self, attempt: Attempt) -> None:
        try:
            await self._serve_it(attempt)
        except BaseException:
            break_down()

    async def _serve_it(self, attempt: Attempt) -> None:
        attempt.started = monotonic()
        self.board.started(attempt.lease, attempt.started)
        try:
            in_time = attempt.started < attempt.valid_until
            attempt.outcome = await interruptible(run_async(attempt), attempt) if in_time else too_late(attempt)
        except BaseException as error:
            attempt.outcome = Failed(attempt.lease, error)
        explain(attempt)
        del self.running[attempt]
        self.connections.tidy()
        attempt.ended = monotonic()
        self.board.ended(attempt.lease)
        self.report(attempt)


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
