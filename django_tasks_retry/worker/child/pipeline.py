"""The pipeline of an attempt from begin to signals, driven by a thread, the event loop, the shell or a test.

A driver calls `run_attempt` or `run_attempt_async`, in the attempt's own thread or asyncio task. Workers record reports
many at a time (outbox.py) and send signals from a thread of their own; others call `run_and_record` and `send_signals`.
"""

import builtins
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from time import monotonic
from types import TracebackType
from typing import Any

from asgiref.sync import sync_to_async

from ... import bridge, registry
from ...compat import is_heard, task_backends, task_finished
from ...middleware import Attempt as AttemptSeen
from ...middleware import Ending, Layers, hooks
from ...models import Task
from ...payloads import PAYLOAD
from ...rules.names import path_of
from ...rules.redact import redact_text
from ...rules.status import Status
from ...taskqueue import Failed, Lease, Outcome, Receipt, Report, database, record, release_task
from ...taskqueue.enqueue import is_enqueue_heard, send_enqueued
from ..logs import log_exception
from .attempt import Attempt, Way, call_function, conclude, result_of, run, run_async
from .attempt_logs import take
from .call import opened_lease
from .connections import FreshConnections

logger = logging.getLogger(__name__)
FLUSH_SECONDS = 5.0


# Begin, run and conclude


def run_attempt(attempt: Attempt, inner: Callable[[Attempt], Outcome] = run) -> Outcome:
    """Run a function in this thread, with the middleware around it. Afterwards the attempt has its report."""
    refusal = open_call(attempt) if PAYLOAD in attempt.lease.kwargs else None
    with middleware_of(attempt) as conclude_here:
        return conclude_here(refusal or inner(attempt))


async def run_attempt_async(attempt: Attempt) -> Outcome:
    """Run a coroutine function in this event loop, with the middleware around it."""
    refusal = await sync_to_async(open_call)(attempt) if PAYLOAD in attempt.lease.kwargs else None
    with middleware_of(attempt) as conclude_here:
        return conclude_here(refusal or await run_async(attempt))


def open_call(attempt: Attempt) -> Outcome | None:
    """Give the attempt the arguments that its row hides, or return why it cannot run."""
    found = opened_lease(attempt.lease)
    if not isinstance(found, Lease):
        return found
    attempt.lease = found
    return None


def note_outcome(attempt: Attempt, outcome: Outcome) -> Outcome:
    """Conclude, unless it was given back meanwhile, since another coroutine blocked the loop."""
    if attempt.report is None:
        attempt.report = conclude(attempt, outcome)
    else:
        take(attempt.lease)  # drops the lines that it logged
    return outcome


@contextmanager
def middleware_of(attempt: Attempt) -> Iterator[Callable[[Outcome], Outcome]]:
    """Yield what concludes the attempt. That is done inside the middleware, which so learns whether it is retried."""
    installed = hooks(attempt.lease.backend, "attempt")
    if not installed:
        yield lambda outcome: note_outcome(attempt, outcome)
        return
    subject = attempt_of(attempt.lease)
    layers = Layers(installed, subject, lambda error: type(error) is type(attempt.interruption))
    raised: BaseException | None = None

    def conclude_here(outcome: Outcome) -> Outcome:
        nonlocal raised
        raised = error_of(outcome)
        note_outcome(attempt, outcome)
        subject.ending = attempt.report and ending_of(attempt.report)
        return outcome

    layers.__enter__()
    try:
        yield conclude_here
    except BaseException as interruption:
        raised = interruption
        raise
    finally:
        layers.leave(raised)


def error_of(outcome: Outcome) -> BaseException | None:
    """The exception that the function raised, if it did."""
    error = outcome.error if isinstance(outcome, Failed) else None
    return error if isinstance(error, BaseException) else None


def attempt_of(lease: Lease) -> AttemptSeen:
    return AttemptSeen(
        id=lease.id,
        func_path=lease.func_path,
        args=lease.args,
        kwargs=lease.kwargs,
        queue=lease.queue,
        priority=lease.priority,
        backend=lease.backend,
        worker_id=lease.locked_by,
        number=lease.attempts,
        spent=lease.spent,
        max_attempts=lease.max_attempts,
        run_id=lease.run_id,
        created_at=lease.created_at,
        eta=lease.eta,
        claimed_at=lease.last_attempt_at,
        metadata=lease.metadata,
        schedule=lease.schedule_id,
        slot=lease.slot,
    )


def ending_of(report: Report) -> Ending:
    return Ending(
        status=report.move.target, error=report.error, fingerprint=report.fingerprint, delay=report.delay or 0.0
    )


# Outside a worker


def run_here(attempt: Attempt, call: Way = call_function) -> Outcome:
    """Run in a process that is no worker's: Ctrl-C is meant for it, not for the task, and is passed on."""
    outcome = run(attempt, call)
    if isinstance(error := error_of(outcome), KeyboardInterrupt):
        raise error
    return outcome


def run_and_record(attempt: Attempt, perform: Callable[[Attempt], Outcome]) -> None:
    """Run an attempt and record its report at once. If Ctrl-C ends it, the task is released."""
    attempt.started = monotonic()
    try:
        perform(attempt)
    except KeyboardInterrupt:
        release_task(attempt.lease, "interrupted")
        raise
    attempt.ended = monotonic()
    if attempt.receipt is None and attempt.report is not None:
        [attempt.receipt] = record([attempt.report])


# Signals


class SignalThread:
    """Sends `task_finished` beside the loop of a child, so that a slow receiver holds up neither claims nor writes.

    Signals not yet sent die with the process; the row, the log and the statistics have it all the same.
    """

    def __init__(self) -> None:
        self.queue: SimpleQueue[Attempt | None] = SimpleQueue()
        self.thread = threading.Thread(target=self.run, daemon=True, name="django_tasks_retry.finished_signals")
        self.thread.start()

    def send(self, attempt: Attempt) -> None:
        if is_finish_heard(attempt.receipt) or is_next_heard(attempt.receipt):
            self.queue.put(attempt)

    def run(self) -> None:
        fresh, attempt = FreshConnections(), None
        while True:
            try:
                if (attempt := self.queue.get()) is None:
                    return
                with fresh:
                    send_signals(attempt)
            except Exception:
                log_exception(logger, "signals of %s could not be sent", attempt and attempt.lease.id)

    def flush(self) -> None:
        self.queue.put(None)
        self.thread.join(timeout=FLUSH_SECONDS)


def is_finish_heard(receipt: Receipt | None) -> bool:
    """Return whether the task has ended for good, and anybody hears of it."""
    ended = receipt.final_status if receipt else None
    return ended is not None and is_heard(task_finished, logging.INFO if ended is Status.SUCCESS else logging.ERROR)


def is_next_heard(receipt: Receipt | None) -> bool:
    """Return whether a next occurrence was enqueued, and anybody hears of it."""
    return receipt is not None and receipt.next_id is not None and is_enqueue_heard()


def send_signals(attempt: Attempt) -> None:
    """A task that ended for good, and the next occurrence that was enqueued with it."""
    send_finished(attempt)
    if attempt.receipt is not None and is_next_heard(attempt.receipt):
        send_enqueued(Task.objects.using(database(attempt.lease.backend)).filter(pk=attempt.receipt.next_id))


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
        raise recorded_error(error, traceback)
    except Exception as recorded:  # the framework's log line takes the traceback from the exception being handled
        # Without the frame of this function: a mail in HTML would show its variables, the arguments among them.
        recorded.__traceback__ = traceback
        task_finished.send_robust(sender, task_result=result)


PLAIN_ERRORS = {
    path_of(kind): kind
    for kind in vars(builtins).values()
    if isinstance(kind, type) and issubclass(kind, Exception) and not issubclass(kind, UnicodeError | ExceptionGroup)
}
"""Exceptions of Python's own that take a message."""


class RecordedError(Exception):
    """Stands in for the exception of a task: its name, its message and its traceback, and none of its code."""


def recorded_error(error: dict[str, Any], traceback: TracebackType | None = None) -> Exception:
    """Return an exception for the framework's log line, which goes to mails and to Sentry: secrets are redacted.

    It has the recorded name. Without a traceback, the recorded text becomes a note.
    """
    path = error["exception"]
    module, _, name = path.rpartition(".")
    named = {"__module__": module or __name__}
    kind = PLAIN_ERRORS.get(path) or type(name or "RecordedError", (RecordedError,), named)
    recorded: Exception = kind(redact_text(error["message"]))
    if traceback is None:
        recorded.add_note(redact_text(error["traceback"]))
    return recorded.with_traceback(traceback)
