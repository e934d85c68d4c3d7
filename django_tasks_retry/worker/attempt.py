"""One attempt, from lease to outcome: a pipeline of named steps. Nothing a task does can end its worker."""

from __future__ import annotations

import inspect
from typing import Any

from .. import bridge, registry
from ..compat import TaskContext, task_backends, task_finished, task_started
from ..registry import AnyTask
from ..rules.failure import Code, capture
from ..taskqueue import Completed, Failed, Lease, Outcome, Receipt, Released, current_lease


def run(lease: Lease) -> Outcome:
    task = registry.find(lease.func_path)
    if task is None:
        return Released(lease, "this worker does not know the function")
    misfit = arguments_misfit(task, lease)
    if misfit is not None:
        return Failed(lease, capture(misfit, Code.BAD_ARGUMENTS))
    token = current_lease.set(lease)
    try:
        return Completed(lease, call(task, lease))
    except BaseException as error:  # SystemExit and KeyboardInterrupt of a task are its failures, not the worker's
        return Failed(lease, error)
    finally:
        current_lease.reset(token)


def arguments_misfit(task: AnyTask, lease: Lease) -> TypeError | None:
    """Arguments that no longer fit the function cannot be mended by trying again."""
    context = (None,) if task.takes_context else ()
    try:
        inspect.signature(task.func).bind(*context, *lease.args, **lease.kwargs)
    except TypeError as error:
        return error
    return None


def call(task: AnyTask, lease: Lease) -> Any:
    result = bridge.running_result(lease, task)
    task_started.send_robust(type(task_backends[lease.backend]), task_result=result)
    context: tuple[Any, ...] = (TaskContext(task_result=result),) if task.takes_context else ()
    return task.call(*context, *lease.args, **lease.kwargs)


def tell(outcome: Outcome, receipt: Receipt) -> None:
    """Send `task_finished` for what ended for good."""
    if not receipt.accepted or receipt.status not in bridge.FINAL:
        return
    result = bridge.read_result(str(receipt.lease.id), receipt.lease.backend)
    sender = type(task_backends[receipt.lease.backend])
    try:
        # The framework's log line takes the traceback from the exception that is being handled.
        if isinstance(outcome, Failed) and isinstance(outcome.error, BaseException):
            raise outcome.error
        task_finished.send_robust(sender, task_result=result)
    except BaseException:
        task_finished.send_robust(sender, task_result=result)
