"""Rehearsal: recorded calls run again with the code of this process, and their ends compared with the recorded ones.

Nothing is kept: each call runs in a transaction that is rolled back, on databases that were named and no other. Steps
are answered from history, mails stay in memory, and sockets are refused. Middleware and signals are left out.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from time import monotonic
from typing import Any
from unittest.mock import patch

from django.conf import settings
from django.db import connections, transaction
from django.db.backends.signals import connection_created
from django.test.utils import override_settings

from .. import registry
from ..bridge import Context, running_result
from ..clock import now
from ..compat import HAS_MAILERS
from ..display.events import as_mapping
from ..display.formatting import one_line
from ..display.redact import redact_value
from ..errors import UnstorableResult
from ..models import Task, TaskResult
from ..payloads import PAYLOAD, opened
from ..registry import AnyTask
from ..rules.names import first_of
from ..rules.redact import redact_text
from ..rules.status import Status
from ..taskqueue import Completed, Failed, Lease, Outcome, Released, current_lease, database
from ..taskqueue.reading import read_rows, unreadable_columns
from ..taskqueue.renewal import open_transactions
from ..taskqueue.typed import function_of
from ..taskqueue.workflows import StepKind, StepStore, storable
from .child.attempt import Attempt, conclude
from .child.call import BoundCall, bound
from .child.pipeline import open_call

ENDS_TRANSACTION = re.compile(
    r"(?:^|;)(?:\s|/\*.*?\*/|--[^\n]*\n)*"
    r"(?:commit|end|abort|rollback(?!\s+to)|begin|start\s+transaction|prepare\s+transaction|vacuum)\b",
    re.I | re.S,
)
VERDICTS = ("equal", "cured", "differs", "fails", "refused")
LOCMEM = "django.core.mail.backends.locmem.EmailBackend"
MOST_DIFFERENCES = 5
STARTS_TASKS = (StepKind.BATCH, StepKind.MEMBERS)
ABSENT = object()


class Refused(BaseException):
    """The call would leave the rehearsal. No `except Exception` of a task takes it for an answer."""


@dataclass(frozen=True, slots=True)
class Rehearsed:
    task: Task
    verdict: str  # one of VERDICTS
    details: list[str]
    seconds: float
    recorded_seconds: float
    statements: int


def rehearse(
    func_path: str, backend: str, aliases: Sequence[str], since: timedelta, limit: int, *, network: bool
) -> list[Rehearsed]:
    """Rehearse the newest calls of the function that ended, as the first of these databases has them."""
    calls = recorded_calls(func_path, now(aliases[0]) - since, limit, aliases[0])
    with nothing_outside(backend, aliases, network=network) as count:
        return [rehearse_call(task, backend, aliases, count, network=network) for task in calls]


def recorded_calls(func_path: str, since: datetime, limit: int, using: str) -> list[Task]:
    ended = Task.objects.using(using).filter(func_path=func_path, status__in=(Status.SUCCESS, Status.FAILED))
    ended = ended.filter(pk__gte=first_of(int(since.timestamp() * 1000)), last_attempt_at__isnull=False)
    return [task for task in read_rows(ended.order_by("-pk")[:limit]) if not unreadable_columns(task)]


@contextmanager
def nothing_outside(backend: str, aliases: Sequence[str], *, network: bool) -> Iterator[Callable[[], int]]:
    """Answer the backend's database from the first alias, and refuse all others. Yield a count of statements."""
    count, home = 0, database(backend)

    def watch(execute: Any, sql: Any, params: Any, many: Any, context: Any) -> Any:
        nonlocal count
        count += 1
        # Django itself begins the transaction on SQLite, before it counts as open.
        if context["connection"].in_atomic_block and ENDS_TRANSACTION.search(str(sql)):
            raise Refused(f"it ends the transaction: {one_line(sql, 60)}")
        return execute(sql, params, many, context)

    def refuse_new(connection: Any, **_: Any) -> None:
        if current_lease.get() is None and any(connection is each for each in named):
            return  # between two calls, the first of which closed it
        connection.close()
        refuse(connection)

    before = connections[home]
    named = [connections[alias] for alias in dict.fromkeys(aliases)]
    with ExitStack() as stack:
        for connection in connections.all(initialized_only=True):
            if connection not in named:
                stack.enter_context(connection.execute_wrapper(lambda *call: refuse(call[-1]["connection"])))
        for connection in named:
            connection.ensure_connection()
            stack.enter_context(connection.execute_wrapper(watch))
        connections[home] = named[0]
        stack.callback(connections.__setitem__, home, before)
        connection_created.connect(refuse_new)
        stack.callback(connection_created.disconnect, refuse_new)
        stack.enter_context(override_settings(**mail_settings()))
        for name in () if network else ("connect", "connect_ex", "sendto", "sendmsg"):
            stack.enter_context(patch.object(socket.socket, name, no_network))
        yield lambda: count


def refuse(connection: Any) -> None:
    raise Refused(f"it uses the database {connection.alias!r}, or a thread of its own: pass --database to allow it")


def mail_settings() -> dict[str, Any]:
    """Keep mails in memory, by the setting that this Django has for it."""
    if not HAS_MAILERS:
        return {"EMAIL_BACKEND": LOCMEM}
    return {"MAILERS": {alias: {"BACKEND": LOCMEM} for alias in getattr(settings, "MAILERS", None) or ["default"]}}


def no_network(used: socket.socket, *address: Any) -> Any:
    used.close()
    raise Refused(f"it calls the outside: {one_line(address[-1], 100)}")


def rehearse_call(
    task: Task, backend: str, aliases: Sequence[str], count: Callable[[], int], *, network: bool
) -> Rehearsed:
    """Run one recorded call within transactions that are rolled back. The caller has refused everything outside."""
    recorded = TaskResult.objects.using(aliases[0]).filter(pk=task.pk).first()
    lease = Lease._make(getattr(task, name) for name in Lease._fields)._replace(backend=backend)
    attempt = Attempt(lease, monotonic())
    with ExitStack() as stack:
        for alias in dict.fromkeys(aliases):
            block = transaction.atomic(using=alias)
            block._from_testcase = True  # type: ignore[attr-defined]  # noqa: SLF001 - durable blocks may stand in it
            stack.enter_context(block)
        before, started = count(), monotonic()
        outcome = run_call(attempt, network=network)
        seconds, statements = monotonic() - started, count() - before
        for alias in aliases:
            transaction.set_rollback(True, using=alias)
    verdict, details = compared(attempt, outcome, task, recorded)
    took = (task.finished_at - task.last_attempt_at).total_seconds() if task.finished_at and task.last_attempt_at else 0
    return Rehearsed(task, verdict, details, seconds, took, statements)


def run_call(attempt: Attempt, *, network: bool) -> Outcome:
    """Run the function as a worker would, without middleware, signals and a live lease."""
    task = registry.find(attempt.lease.func_path)
    if task is None:
        return Released(attempt.lease, "this code does not know the function")
    if refusal := open_call(attempt) if PAYLOAD in attempt.lease.kwargs else None:
        return refusal
    lease = attempt.lease
    token = current_lease.set(lease)
    try:
        context = (context_of(attempt, task, network=network),) if task.takes_context else ()
        call = bound(lease, task, context)
        return Completed(lease, task.call(*call.args, **call.kwargs)) if isinstance(call, BoundCall) else call
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Failed(lease, error)
    finally:
        current_lease.reset(token)


class RehearsedContext(Context):
    """The context of a task that has ended: its lease is over, and nobody looks at its progress."""

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        pass

    def lease_ok(self) -> bool:
        return True


class RehearsedSteps(StepStore):
    """The recorded steps, and new ones in memory. Those that reach outside the task must be recorded."""

    network = False

    def enter(self, name: str, kind: StepKind) -> bool:
        is_recorded = StepStore.enter(self, name, kind)
        if not is_recorded and (kind in STARTS_TASKS or (kind is StepKind.EFFECT and not self.network)):
            raise Refused(f"the {kind} {name!r} is not in its history")
        return is_recorded

    def save(self, name: str, kind: StepKind, result: Any, function: Callable[..., Any] | None = None) -> Any:
        self.recorded[name] = (kind, storable(self.lease, name, result, function)[0])
        return self.result(name, function)


def context_of(attempt: Attempt, task: AnyTask, *, network: bool) -> Context:
    lease, transactions = attempt.lease, open_transactions(attempt.lease.backend)
    attempt.steps = steps = RehearsedSteps(lease, transactions)
    steps.network = network
    result = running_result(lease, task, with_history=True)
    return RehearsedContext(task_result=result, lease=lease, transactions=transactions, steps=steps)


# Comparison


def compared(attempt: Attempt, outcome: Outcome, task: Task, recorded: TaskResult | None) -> tuple[str, list[str]]:
    if isinstance(outcome, Failed) and isinstance(outcome.error, Refused):
        return "refused", [str(outcome.error)]
    if isinstance(outcome, Completed):
        return compared_results(outcome, task, recorded)
    report = conclude(attempt, outcome)
    if report.error is None:
        return "refused", [f"it would wait: {one_line(report.reason, 200)}"]
    was, name = name_of(as_mapping(task.last_error)), name_of(report.error)
    raised = f"{name}: {one_line(redact_text(report.error['message']), 200)}"
    if task.status == Status.SUCCESS:
        return "fails", [raised]
    return ("equal", []) if name == was else ("differs", [f"{was} → {raised}"])


def compared_results(outcome: Completed, task: Task, recorded: TaskResult | None) -> tuple[str, list[str]]:
    if task.status != Status.SUCCESS:
        return "cured", [name_of(as_mapping(task.last_error))]
    try:
        after = storable(outcome.lease, "return", outcome.result, function_of(task.func_path))[0]
    except UnstorableResult as unfit:
        return "fails", [one_line(unfit, 200)]
    before = opened(recorded and recorded.result, task.backend, task.pk)
    return ("equal", []) if before == after else ("differs", differences(before, after))


def name_of(error: Mapping[str, Any]) -> str:
    return str(error.get("exception") or error.get("code") or "").removeprefix("builtins.")


def differences(before: Any, after: Any) -> list[str]:
    """Name the places of two results that differ, without their secrets."""
    found = list(unlike("$", redact_value("", before, None), redact_value("", after, None)))
    return found[:MOST_DIFFERENCES] or ["$: in what is redacted"]


def unlike(place: str, before: Any, after: Any) -> Iterator[str]:
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from unlike(f"{place}.{name}", before.get(name, ABSENT), after.get(name, ABSENT))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for n, pair in enumerate(zip(before, after, strict=True)):
            yield from unlike(f"{place}[{n}]", *pair)
    elif before != after:
        yield f"{one_line(place, 80)}: {shown(before)} → {shown(after)}"


def shown(value: Any) -> str:
    return "absent" if value is ABSENT else one_line(json.dumps(value, ensure_ascii=False), 80)
