"""A row that cannot be read is shown, cancelled and left out of a retry; it keeps no other from any of these."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks
from tests.admin.test_bulk import act, ask_about_all
from tests.admin.test_task_page import why
from tests.admin.unguarded import overwrite, without_guard

BASE = "/admin/django_tasks_retry"
DEEP = "[" * 5000 + "]" * 5000
YEAR_20000 = "20000-01-01 00:00:00+00"
POISONS = {
    "number beyond floats": {"args": "[1e5000]"},
    "nested too deep": {"args": DEEP},
    "nested keyword arguments": {"kwargs": '{"a":' + DEEP + "}"},
    "arguments that are no list": {"args": '"text"'},
    "null arguments": {"args": "null"},
    "unknown backoff": {"backoff": '{"x": 1}'},
    "eta of the year 20000": {"eta": YEAR_20000},
    "created in the year 20000": {"created_at": YEAR_20000},
    "endless timeout": {"timeout": "Infinity"},
    "endless interval": {"interval": "Infinity", "slot": "2026-01-01 00:00:00+00"},
    "metadata too deep": {"metadata": '{"a":' + DEEP + "}"},
    "billions of attempts": {"max_attempts": "2147483647"},
    "text for an error": {"last_error": '"text"'},
}
TOLD = (
    "number beyond floats",
    "nested too deep",
    "metadata too deep",
    "unknown backoff",
    "eta of the year 20000",
    "arguments that are no list",
)


@pytest.fixture(params=POISONS)
def poisoned(request, database) -> Task:
    """One task with something in it that cannot be read, between two that are well."""
    _before, task, _after = Task.objects.enqueue_many([(tasks.noop,)] * 3)
    overwrite(task, database, **POISONS[request.param])
    return task


def status_of(task: Task) -> str:
    return Task.objects.values_list("status", flat=True).get(pk=task.pk)


@contextmanager
def undone(using: str) -> Iterator[None]:
    """Leave the rows as they were: writing one that cannot be read costs more than what is tried with it."""
    with transaction.atomic(using=using):
        yield
        transaction.set_rollback(True, using=using)


@pytest.mark.fault("console_meets_an_unreadable_row")
def test_it_is_shown_cancelled_made_due_and_left_out_of_a_retry(poisoned, operator, database):
    with undone(database):
        check_pages(operator, poisoned)
    with undone(database):
        check_cancel_alone(operator, poisoned)
    with undone(database):
        response = act(operator, ask_about_all(operator, "cancel_selected"), follow=True)
        assert "3 tasks cancelled." in response.content.decode()
        assert Task.objects.cancelled().count() == 3
    with undone(database):
        response = act(operator, ask_about_all(operator, "run_now_selected"), follow=True)
        assert "3 tasks are due now." in response.content.decode()
    with undone(database):
        taskqueue.cancel(list(Task.objects.values_list("pk", flat=True)))
        assert act(operator, ask_about_all(operator, "retry_selected")).status_code == 302
        assert Task.objects.filter(retry_of__isnull=False).exclude(retry_of=poisoned.pk).count() == 2


def check_pages(operator, poisoned: Task) -> None:
    pages = ["overview/", "task/?status=ready", "failuregroup/", "queue/", "worker/"]
    for page in [*pages, f"task/{poisoned.pk}/change/"]:
        assert operator.get(f"{BASE}/{page}").status_code == 200, page
    assert len(operator.get(f"{BASE}/task/").context["cl"].result_list) == 3


def check_cancel_alone(operator, poisoned: Task) -> None:
    assert operator.post(f"{BASE}/task/{poisoned.pk}/cancel/", {"reason": "poison"}).status_code == 302
    assert status_of(poisoned) == "CANCELLED"
    assert operator.get(f"{BASE}/task/{poisoned.pk}/change/").status_code == 200


@pytest.mark.fault("console_meets_an_unreadable_row")
@pytest.mark.parametrize("poison", TOLD)
def test_its_page_says_that_it_cannot_be_read(poison, database, operator):
    if database != "postgresql" and poison == "number beyond floats":
        pytest.skip("SQLite keeps the text, which Python reads as infinity")
    task = Task.objects.enqueue(tasks.noop)
    overwrite(task, database, **POISONS[poison])
    assert f"It cannot be read: {next(iter(POISONS[poison]))}. No worker can run it." in why(operator, task)


@pytest.mark.fault("console_meets_an_unreadable_row")
def test_a_retry_of_it_alone_is_refused_with_words(database, operator):
    task = Task.objects.enqueue(tasks.noop)
    taskqueue.cancel([task.pk])
    overwrite(task, database, args=DEEP)
    response = operator.post(f"{BASE}/task/{task.pk}/retry/", follow=True)
    assert "It cannot be retried: args cannot be read." in response.content.decode()


@pytest.mark.fault("console_meets_an_unreadable_row")
def test_an_event_and_a_result_that_cannot_be_read_are_left_out(database, operator):
    task = Task.objects.enqueue(tasks.noop)
    [lease] = taskqueue.claim("w")
    taskqueue.complete_task(lease, {"a": 1})
    with without_guard(database), connections[database].cursor() as cursor:
        cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'") if database != "postgresql" else None
        for (name,) in cursor.fetchall() if database != "postgresql" else []:
            cursor.execute(f'DROP TRIGGER "{name}"')
        for table, column in (("taskevent", "data"), ("taskresult", "result")):
            if database == "postgresql":
                cursor.execute(f"ALTER TABLE django_tasks_retry_{table} DISABLE TRIGGER USER")
            cursor.execute(f"UPDATE django_tasks_retry_{table} SET {column} = %s", [DEEP])
    page = operator.get(f"{BASE}/task/{task.pk}/change/")
    assert page.status_code == 200
