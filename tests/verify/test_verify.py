"""`tasks verify` finds every doctored history, on both databases, and nothing in one that is sound."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Step, Task, TaskEvent, TaskResult
from django_tasks_retry.verify import audit
from django_tasks_retry.verify.rules import RULES
from tests import tasks
from tests.admin import scene
from tests.cli.conftest import cli, tasks_command  # noqa: F401
from tests.lanes.test_limits import with_lanes

TABLES = [model._meta.db_table for model in (Task, TaskEvent, TaskResult, Step)]


@contextmanager
def unguarded(using: str) -> Iterator[None]:
    """As somebody with all rights over the database could do it; the test's transaction brings all back."""
    with connections[using].cursor() as cursor:
        if using == "postgresql":
            cursor.execute("SET CONSTRAINTS ALL IMMEDIATE")
            for table in TABLES:
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            cursor.execute("SELECT conrelid::regclass, conname FROM pg_constraint WHERE contype = 'c' "
                           "AND conrelid = ANY (%s::regclass[])", [TABLES])  # fmt: skip
            for table, name in cursor.fetchall():
                cursor.execute(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
        else:
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")
            for (name,) in cursor.fetchall():
                cursor.execute(f'DROP TRIGGER "{name}"')
            cursor.execute("PRAGMA ignore_check_constraints = 1")
        cursor.execute("DROP INDEX dtr_slots")
        cursor.execute("DROP INDEX dtr_unique_key")
        yield
        if using != "postgresql":
            cursor.execute("PRAGMA ignore_check_constraints = 0")


@pytest.fixture
def lived(database, travel) -> Task:
    """Failed once, given back once, then done; and then done again on request. Its neighbours are sound."""
    task = Task.objects.enqueue(tasks.noop, max_attempts=3)
    Task.objects.enqueue(tasks.noop, queue="emails").cancel(by="olga")
    [lease] = taskqueue.claim("one-1-a/1", ["default"])
    taskqueue.fail_task(lease, RuntimeError("boom"))
    travel(10)
    [lease] = taskqueue.claim("two-2-b/1", ["default"])
    taskqueue.release_task(lease, "shutdown")
    travel(20)
    [lease] = taskqueue.claim("two-2-b/1", ["default"])
    taskqueue.complete_task(lease, None)
    task.retry(by="olga", reason="again")
    return task


def event(task: Task, kind: str, n: int = 0) -> TaskEvent:
    return list(TaskEvent.objects.filter(task=task, kind=f"task.{kind}").order_by("id"))[n]


def change_event(task: Task, kind: str, n: int = 0, /, **changes: Any) -> None:
    TaskEvent.objects.filter(pk=event(task, kind, n).pk).update(**changes)


def add_event(task: Task, kind: str, attempt: int, actor: str) -> None:
    last = TaskEvent.objects.filter(task=task).latest("id")
    later = last.ts + timedelta(microseconds=1)
    TaskEvent.objects.create(task=task, kind=f"task.{kind}", ts=later, attempt=attempt, actor=actor, data={})


def change(task: Task, **changes: Any) -> None:
    Task.objects.filter(pk=task.pk).update(**changes)


def earlier(moment: Any, seconds: float) -> Any:
    return moment - timedelta(seconds=seconds)


def take_early(task: Task) -> None:
    """Somebody took the second attempt from its worker, which had not given it back."""
    change_event(task, "released", kind="task.lease_lost", actor="z")
    change(task, refunds=0)


SLOT = {"schedule_id": "nightly", "slot": datetime(2026, 1, 31, 3, tzinfo=UTC)}


def start_more(task: Task, lane: str, count: int) -> None:
    """Both are of this lane, and the retry was claimed so often while the first attempt ran."""
    begun = event(task, "running").ts
    for each in (task, task.retries.get()):
        change(each, lane=lane)
    for n in range(count):
        ts = begun + timedelta(microseconds=n)
        TaskEvent.objects.create(
            task=task.retries.get(), kind="task.running", ts=ts, attempt=n + 1, actor="x/1", data={}
        )


DOCTORED: dict[str, tuple[str, Callable[[Task], Any]]] = {
    "a lease taken while it held": ("leases", take_early),
    "two outcomes": ("one-outcome", lambda t: add_event(t, "completed", 3, "two-2-b/1")),
    "an event after the end": ("final", lambda t: add_event(t, "lease_lost", 3, "two-2-b")),
    "more attempts than the budget": ("budget", lambda t: change(t, max_attempts=1)),
    "a result that is missing": ("results", lambda t: TaskResult.objects.filter(pk=t.pk).delete()),
    "a result that says otherwise": ("results", lambda t: TaskResult.objects.filter(pk=t.pk).update(status="FAILED")),
    "an attempt that was not counted": ("attempts", lambda t: change(t, attempts=2)),
    "a report by somebody else": ("reports", lambda t: change_event(t, "completed", actor="one-1-a/1")),
    "a start before the task was due": (
        "eta",
        lambda t: change_event(t, "running", 1, ts=event(t, "requeued").ts + timedelta(milliseconds=1)),
    ),
    "a start before the task was enqueued": (
        "eta",
        lambda t: change_event(t, "running", ts=earlier(event(t, "running").ts, 86400)),
    ),
    "a refund that nobody gave": ("record", lambda t: change(t, refunds=2)),
    "a finished task with a lease": ("record", lambda t: change(t, locked_by="one-1-a/1")),
    "a move of a task that stands still": ("moves", lambda t: add_event(t.retries.get(), "requeued", 0, "x")),
    "a retry that nobody asked for": ("lineage", lambda t: event(t.retries.get(), "retried").delete()),
    "a slot that was enqueued twice": ("slots", lambda t: [change(each, **SLOT) for each in (t, t.retries.get())]),
    "a task that is gone": ("orphans", lambda t: Task.objects.filter(pk=t.pk)._raw_delete(Task.objects.db)),
}
ALSO_FOUND: dict[str, tuple[str, Callable[[Task], Any]]] = {
    "a failure that was never requeued": ("moves", lambda t: event(t, "requeued").delete()),
    "two leases at once": ("leases", lambda t: event(t, "released").delete()),
    "an attempt without a claim": ("attempts", lambda t: event(t, "running", 1).delete()),
    "a status that no event tells of": ("record", lambda t: change(t, status="FAILED")),
    "two at once in a lane for one": ("limits", lambda t: start_more(t, "account-1", 1)),
    "too many starts in a window": ("rates", lambda t: start_more(t, "api-a", 6)),
}
"""These break more than one rule."""


def found_rules(*options: str) -> tuple[int, set[str], set[str]]:
    answer = tasks_command("verify", "--json", *options)
    breaches = answer.record["breaches"]
    return answer.code, {breach["rule"] for breach in breaches}, {breach["task"] for breach in breaches}


@pytest.mark.fault("history_doctored_by_a_superuser")
@pytest.mark.parametrize("doctored", DOCTORED)
def test_a_doctored_history_is_found_out(doctored, lived, database):
    """By its rule alone: each rule finds what no other does."""
    rule, doctor = DOCTORED[doctored]
    assert tasks_command("verify").code == 0
    affected = {str(lived.pk), str(lived.retries.get().pk)}
    with unguarded(database):
        doctor(lived)
        code, rules, told = found_rules()
    assert (code, rules) == (1, {rule})
    assert told <= affected


@pytest.mark.parametrize("doctored", ALSO_FOUND)
def test_a_history_that_breaks_several_rules_is_found_out(doctored, lived, database):
    rule, doctor = ALSO_FOUND[doctored]
    with unguarded(database):
        doctor(lived)
        assert rule in found_rules()[1]


@pytest.mark.parametrize("whole", ["queue:{0.queue}", "function:{0.func_path}"], ids=["queue", "function"])
@pytest.mark.parametrize(
    ("limit", "rule"), [({"concurrency": 1}, "limits"), ({"rate": (4, 10)}, "rates")], ids=["limit", "rate"]
)
def test_a_limit_of_a_whole_queue_or_function_is_proved_from_the_events(whole, limit, rule, lived, database, settings):
    settings.TASKS = with_lanes(settings.TASKS, {whole.format(lived): limit})
    assert tasks_command("verify").code == 0
    with unguarded(database):
        start_more(lived, "", 4)
        answer = tasks_command("verify", "--json")
    assert rule in {breach["rule"] for breach in answer.record["breaches"]}


def test_a_day_of_a_shop_is_sound(database):
    scene.play(database)
    report = tasks_command("verify", "--all", "--json").record
    assert (report["ok"], report["tasks"], report["events"]) == (True, Task.objects.count(), TaskEvent.objects.count())
    assert all(rule["breaches"] == 0 for rule in report["rules"])


def test_the_report_says_what_was_looked_at(lived):
    shown = tasks_command("verify").out
    assert "3 tasks, 9 events" in shown
    assert shown.count("kept") == len(RULES)
    assert shown.endswith("No breach was found.\n")


def test_the_window_is_the_time_of_enqueueing(lived, database, travel):
    travel(7200)
    assert tasks_command("verify", "--since", "1h", "--json").record["tasks"] == 0
    assert tasks_command("verify", "--since", "3h", "--until", "1h", "--json").record["tasks"] == 3
    assert tasks_command("verify", "--since", "yesterday").code == 2


def test_it_holds_one_page_at_a_time_and_writes_nothing(lived, database, monkeypatch):
    monkeypatch.setattr(audit, "PAGE", 1)
    with CaptureQueriesContext(connections[database]) as queries:
        pages = [each.tasks for each in audit.verify(database, 60.0)]
    assert pages == [1, 2, 3, 3]
    assert all(query["sql"].startswith("SELECT") for query in queries)


def test_a_task_that_moves_while_it_is_read_is_read_again(database, monkeypatch):
    """Its row is read, then it is claimed, then its events are read: that is no breach."""
    Task.objects.enqueue(tasks.noop)
    read_events, claimed = audit.read_events, []

    def claim_first(ids: Any, using: str) -> Any:
        claimed.append(claimed or taskqueue.claim("w"))
        return read_events(ids, using)

    monkeypatch.setattr(audit, "read_events", claim_first)
    [*_pages, last] = audit.verify(database, 60.0)
    assert last.is_clean
    assert len(claimed) == 2
