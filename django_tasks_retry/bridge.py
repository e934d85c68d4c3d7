"""Our rows in the words of `django.tasks`."""

import asyncio
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from datetime import timedelta
from functools import cache
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from asgiref.sync import sync_to_async
from django.db import connections

from . import compat, registry
from .conf import named_in_settings
from .durations import as_seconds
from .errors import Abort, InvalidCall, InvalidPayload, TaskCancelled
from .models import Task, TaskEvent
from .payloads import is_hidden, opened
from .registry import AnyTask
from .rules.failure import capture
from .rules.names import path_of
from .rules.status import Status
from .rules.transitions import EventKind
from .taskqueue import Lease, Receipt, Report, database
from .taskqueue.renewal import check_lease, lease_holds, open_transactions, report_progress
from .taskqueue.shards import check_answers, shard_of_id
from .taskqueue.typed import read_returned
from .taskqueue.workflows import StepStore, Workflow
from .utc import in_project_time

AnyResult: TypeAlias = "compat.TaskResult[Any, Any]"
if TYPE_CHECKING:
    AnyContext = compat.TaskContext[Any, Any]
    FrameworkResult = compat.TaskResult[Any, Any]
else:
    AnyContext, FrameworkResult = compat.TaskContext, compat.TaskResult

FIRST_POLL, LAST_POLL = 0.01, 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskResult(FrameworkResult):  # type: ignore[misc]
    """The result of a task that can be waited for: `result.wait(10)`, or `await result` in a coroutine."""

    @property
    def return_value(self) -> Any:
        """Return what the function returned. A hidden result is opened only now; PayloadUnavailable if it cannot be."""
        value = FrameworkResult.return_value.__get__(self)
        return read_value(self.task, opened(value, self.backend, UUID(self.id))) if is_hidden(value) else value

    def wait(self, timeout: float | timedelta | None = None) -> Any:
        """Wait until the task has ended, and return what it returned. TimeoutError if it takes longer.

        Polls the database, so keep it for scripts and tests: a request should not wait for a worker.
        """
        for pause in self._polls(timeout):
            sleep(pause)
        return self.return_value

    async def await_end(self, timeout: float | timedelta | None = None) -> Any:
        """See wait()."""
        polls = self._polls(timeout)
        while (pause := await sync_to_async(lambda: next(polls, None))()) is not None:
            await asyncio.sleep(pause)
        return self.return_value

    def __await__(self) -> Generator[Any, None, Any]:
        return self.await_end().__await__()

    def _polls(self, timeout: float | timedelta | None) -> Iterator[float]:
        """Refresh until the task has ended, and yield the seconds in between, ever more: a long task costs little."""
        until = None if timeout is None else monotonic() + as_seconds(timeout)
        pause = FIRST_POLL
        while True:
            if not self.is_finished:
                self.refresh()
            if self.is_finished:
                return
            if connections[database(shard_of_id(UUID(self.id), self.backend))].in_atomic_block:
                raise InvalidCall("wait() within a transaction never ends: workers see the task after the commit.")
            if until is not None and monotonic() >= until:
                raise TimeoutError(f"Task {self.id} has not ended in time; its status is {self.status}.")
            yield pause
            pause = min(2 * pause, LAST_POLL)


IN_DJANGO = {
    Status.PENDING: compat.TaskResultStatus.READY,
    Status.RUNNING: compat.TaskResultStatus.RUNNING,
    Status.SUCCESS: compat.TaskResultStatus.SUCCESSFUL,
    Status.FAILED: compat.TaskResultStatus.FAILED,
    Status.CANCELLED: compat.TaskResultStatus.FAILED,
}
SHOWN_IN_RESULTS = (EventKind.RUNNING, EventKind.FAILED, EventKind.CANCELLED)
LOST = "django_tasks_retry.errors.LeaseLost"


def read_result(result_id: str, backend: str) -> AnyResult:
    """The stored result of this id; ids that cannot be ours are refused before the database is asked."""
    try:
        task_id = UUID(result_id)
    except (AttributeError, TypeError, ValueError):
        raise compat.TaskResultDoesNotExist(result_id) from None
    backend = shard_of_id(task_id, backend)
    check_answers(backend)
    using = database(backend)
    row = Task.objects.using(using).select_related("outcome").filter(pk=task_id, backend=backend).first()
    task = registry.find(row.func_path) if row else None
    if row is None or task is None:
        raise compat.TaskResultDoesNotExist(result_id)
    events = TaskEvent.objects.using(using).filter(task_id=row.pk, kind__in=SHOWN_IN_RESULTS)
    return as_result(row, task, list(events))


def variant(task: AnyTask, row: Task | Lease) -> AnyTask:
    """The task as it was enqueued: its own queue, priority, backend and eta.

    Not by `task.using(...)`, which would check anew what is history: a queue that is no longer configured, say.
    """
    eta = None if row.eta == row.created_at else in_project_time(row.eta)
    backend = named_in_settings(row.backend)
    if (task.run_after, task.queue_name, task.priority, task.backend) == (eta, row.queue, row.priority, backend):
        return task
    changes = {"run_after": eta, "queue_name": row.queue, "priority": row.priority, "backend": backend}
    task_class: Any = type(task)
    twin: AnyTask = object.__new__(task_class)
    for name in field_names(task_class):
        object.__setattr__(twin, name, changes[name] if name in changes else getattr(task, name))
    return twin


@cache
def field_names(task_class: Any) -> tuple[str, ...]:
    return tuple(each.name for each in fields(task_class))


def as_result(row: Task, task: AnyTask, events: Sequence[TaskEvent] = ()) -> AnyResult:
    """The row's result. `task` is any variant of the row's function."""
    result = new_result(row, task, IN_DJANGO[Status(row.status)], events)
    if row.status == Status.SUCCESS:
        object.__setattr__(result, "_return_value", read_value(task, row.outcome.result))
    return result


def read_value(task: AnyTask, data: Any) -> Any:
    """Return a result as its function's annotation promises it; as JSON, if an instance that it names is gone."""
    if is_hidden(data):
        return data
    try:
        return read_returned(task.func, data)
    except Abort:
        return data


def new_result(
    of: Task | Lease, task: AnyTask, status: compat.TaskResultStatus, events: Sequence[TaskEvent] = ()
) -> AnyResult:
    result: AnyResult = TaskResult(
        task=variant(task, of),
        id=str(of.id),
        status=status,
        enqueued_at=in_project_time(of.created_at),
        started_at=in_project_time(of.started_at),
        last_attempted_at=in_project_time(of.last_attempt_at),
        finished_at=None if isinstance(of, Lease) else in_project_time(of.finished_at),
        args=[],
        kwargs={},
        backend=named_in_settings(of.backend),
        errors=list(errors_of(events)),
        worker_ids=[event.actor for event in events if event.kind == EventKind.RUNNING],
    )
    # Set after the fact: the framework would normalise once more what is canonical already.
    object.__setattr__(result, "args", of.args)
    object.__setattr__(result, "kwargs", of.kwargs)
    return result


def errors_of(events: Iterable[TaskEvent]) -> Iterable[compat.TaskError]:
    """One per failed attempt, and one for a cancellation."""
    for event in events:
        if event.kind == EventKind.FAILED:
            yield task_error(event.data["error"])
        elif event.kind == EventKind.CANCELLED:
            text = f"Cancelled by {event.actor}: {event.data.get('reason') or 'no reason given'}"
            yield compat.TaskError(exception_class_path=path_of(TaskCancelled), traceback=text)


def task_error(error: dict[str, Any]) -> compat.TaskError:
    # What cannot be stored is a TypeError in the framework's words.
    path = "builtins.TypeError" if error["exception"] == path_of(InvalidPayload) else error["exception"]
    return compat.TaskError(exception_class_path=path or LOST, traceback=error["traceback"] or error["message"])


def running_result(lease: Lease, task: AnyTask, *, with_history: bool = True) -> AnyResult:
    """Return the result that signals and the context see. Asks the database only about earlier attempts."""
    earlier: Sequence[TaskEvent] = ()
    if with_history and lease.attempts > 1:
        events = TaskEvent.objects.using(database(lease.backend)).filter(task_id=lease.id, attempt__lt=lease.attempts)
        earlier = list(events.filter(kind__in=SHOWN_IN_RESULTS))
    result = new_result(lease, task, compat.TaskResultStatus.RUNNING, earlier)
    result.worker_ids.append(lease.locked_by)
    return result


def failed_result(lease: Lease, error: BaseException) -> AnyResult:
    """Return the running result with the error, for a backoff function."""
    task = registry.find(lease.func_path)
    if task is None:
        raise compat.TaskResultDoesNotExist(str(lease.id))
    result = running_result(lease, task)
    result.errors.append(task_error(capture(error).as_dict()))
    return result


def send_enqueued(row: Task) -> None:
    """Send `task_enqueued` for this row. Robust: the row is stored, so an error of a receiver cannot undo it."""
    task = registry.find(row.func_path)
    if task is not None:
        sender = type(compat.task_backends[named_in_settings(row.backend)])
        compat.task_enqueued.send_robust(sender, task_result=as_result(row, task))


registry.hooks = registry.Hooks(failed_result, send_enqueued)


def concluded(result: AnyResult, receipt: Receipt, report: Report | None) -> AnyResult:
    """The running result, brought up to date with what was recorded in the end."""
    status = receipt.final_status or Status.PENDING
    object.__setattr__(result, "status", IN_DJANGO[status])
    object.__setattr__(result, "finished_at", in_project_time(receipt.ts))
    if status is Status.SUCCESS and report is not None and report.result is not None:
        data = json.loads(report.result)
        # Instances cost a query.
        value = read_value(result.task, data) if compat.is_watched(compat.task_finished) else data
        object.__setattr__(result, "_return_value", value)
    elif receipt.error is not None:
        result.errors.append(task_error(receipt.error))
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class Context(Workflow, AnyContext):  # type: ignore[misc]
    """The context of a task: the framework's own, and the queue's additions."""

    lease: Lease
    transactions: int = field(default=0, repr=False)
    steps: StepStore = field(repr=False)

    @property
    def attempt(self) -> int:
        """The number of this attempt, from 1."""
        return self.lease.attempts

    @property
    def max_attempts(self) -> int:
        """Return how many attempts the task may spend."""
        return self.lease.max_attempts

    @property
    def metadata(self) -> dict[str, Any]:
        """The `metadata` of the enqueue."""
        return self.lease.metadata

    @property
    def run_id(self) -> UUID:
        """The id that all tasks of one cause share."""
        return self.lease.run_id

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Show operators how far the task has come. Raises LeaseLost if the task belongs to this worker no longer.

        Within a transaction that the task opened it only checks the lease: nobody could see the progress before the
        commit, and until then its lock on the row would keep the worker from renewing the lease.
        """
        if open_transactions(self.lease.backend) > self.transactions:
            check_lease(self.lease)
        else:
            report_progress(self.lease, done, total, note)

    def lease_ok(self) -> bool:
        """Return whether the outcome of this attempt would still be accepted, by the database's word. False: stop."""
        return lease_holds(self.lease)

    async def aprogress(self, done: float, total: float | None = None, note: str = "") -> None:
        """See progress()."""
        await sync_to_async(self.progress)(done, total, note)

    async def alease_ok(self) -> bool:
        """See lease_ok()."""
        return await sync_to_async(self.lease_ok)()


def context_of(lease: Lease, result: AnyResult) -> Context:
    """The context of an attempt that begins. Made before an atomic task opens its transaction."""
    count = open_transactions(lease.backend)
    return Context(task_result=result, lease=lease, transactions=count, steps=StepStore(lease, count))
