"""Sends `task_finished` from a thread of its own, so that a slow receiver holds up neither claims nor writes.

What was recorded but not yet sent dies with the process; the row, the log and the statistics have it all the same.
"""

from __future__ import annotations

import logging
import threading
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from ... import bridge, registry
from ...compat import is_heard, task_backends, task_finished
from ...models import Task
from ...rules.status import Status
from ...taskqueue import Receipt, database
from ...taskqueue.producer.announce import is_enqueue_heard, tell_enqueued
from ..logs import log_exception
from .attempt import Attempt, result_of
from .connections import FreshConnections

logger = logging.getLogger(__name__)
FLUSH_SECONDS = 5.0


class FinishedSignals:
    def __init__(self) -> None:
        self.queue: SimpleQueue[Attempt | None] = SimpleQueue()
        self.thread = threading.Thread(target=self.run, daemon=True, name="django_tasks_retry.finished_signals")
        self.thread.start()

    def send(self, attempt: Attempt) -> None:
        if is_finish_heard(attempt.receipt) or is_next_heard(attempt.receipt):
            self.queue.put(attempt)

    def run(self) -> None:
        fresh = FreshConnections()
        while (attempt := self.queue.get()) is not None:
            try:
                with fresh:
                    send_signals(attempt)
            except Exception:
                log_exception(logger, "signals of %s could not be sent", attempt.lease.id)

    def flush(self) -> None:
        self.queue.put(None)
        self.thread.join(timeout=FLUSH_SECONDS)


def is_finish_heard(receipt: Receipt | None) -> bool:
    """Whether the task has ended for good, and anybody hears of it."""
    ended = receipt.final_status if receipt else None
    return ended is not None and is_heard(task_finished, logging.INFO if ended is Status.SUCCESS else logging.ERROR)


def is_next_heard(receipt: Receipt | None) -> bool:
    """Whether a next occurrence was enqueued, and anybody hears of it."""
    return receipt is not None and receipt.next_id is not None and is_enqueue_heard()


def send_signals(attempt: Attempt) -> None:
    """Of a task that ended for good, and of the next occurrence that was enqueued with it."""
    send_finished(attempt)
    if attempt.receipt is not None and is_next_heard(attempt.receipt):
        tell_enqueued(Task.objects.using(database(attempt.lease.backend)).filter(pk=attempt.receipt.next_id))


def send_finished(attempt: Attempt) -> None:
    task, receipt = registry.find(attempt.lease.func_path), attempt.receipt
    if task is None or receipt is None or receipt.final_status is None or not is_finish_heard(receipt):
        return
    result = bridge.concluded(result_of(attempt, task), receipt, attempt.report)
    send_result(result, receipt.error, attempt.traceback)


def send_result(result: bridge.AnyResult, error: dict[str, Any] | None, traceback: TracebackType | None = None) -> None:
    sender = type(task_backends[result.backend])
    if error is None:
        task_finished.send_robust(sender, task_result=result)
        return
    try:
        raise bridge.recorded_error(error, traceback)
    except Exception:  # the framework's log line takes the traceback from the exception being handled
        task_finished.send_robust(sender, task_result=result)
