"""Actions on many tasks: a signed filter instead of ids, batches, a stop between them."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.contrib.admin.models import LogEntry
from django.core import signing

from django_tasks_retry import taskqueue
from django_tasks_retry.admin import base, bulk
from django_tasks_retry.admin.parts import selection
from django_tasks_retry.models import Task
from django_tasks_retry.selection import matching
from django_tasks_retry.taskqueue import statistics
from tests import tasks

LIST = "/admin/django_tasks_retry/task/"
ACT = f"{LIST}bulk-action/"


def ask(client, action: str, query: str = "", **data):
    return client.post(f"{LIST}?{query}", {"action": action, "index": 0, **data})


def ask_about_all(client, action: str, query: str = ""):
    return ask(client, action, query, select_across="1")


def act(client, asked, reason="INC-204", **options):
    return client.post(ACT, {"token": asked.context["token"], "reason": reason}, **options)


@pytest.fixture
def many(database, monkeypatch) -> list[Task]:
    """More tasks than two batches hold, and than are logged one by one."""
    monkeypatch.setattr(bulk, "SECONDS", 600.0)  # one request does all of them, however busy the machine is
    monkeypatch.setattr(bulk, "BATCH", 100)
    monkeypatch.setattr(base, "MAX_ENTRIES", 10)
    return Task.objects.enqueue_many([(tasks.noop,)] * 250)


def test_all_matching_are_done_in_batches_and_only_those(many, operator):
    other = Task.objects.enqueue(tasks.noop, queue="emails")
    asked = ask_about_all(operator, "cancel_selected", "queue=default")
    assert asked.context["possible"] == "250"
    response = act(operator, asked, follow=True)
    assert "250 tasks cancelled." in response.content.decode()
    assert Task.objects.cancelled().count() == 250
    other.refresh_from_db()
    assert other.status == "PENDING"


def test_the_confirmation_carries_a_filter_not_ids(many, operator):
    asked = ask_about_all(operator, "cancel_selected", "queue=default")
    assert len(asked.context["token"]) < 1000
    assert asked.content.decode().count('type="hidden"') <= 3
    read = signing.loads(asked.context["token"], salt=selection.SALT)
    assert read["params"] == {"queue": "default"}
    assert read["ids"] is None


def test_what_was_enqueued_after_the_question_is_not_touched(many, operator):
    asked = ask_about_all(operator, "cancel_selected")
    later = Task.objects.enqueue(tasks.noop)
    act(operator, asked)
    later.refresh_from_db()
    assert later.status == "PENDING"
    assert Task.objects.cancelled().count() == 250


def test_retries_are_not_retried_by_the_same_request(many, operator):
    taskqueue.cancel([task.pk for task in many])
    act(operator, ask_about_all(operator, "retry_selected"))
    assert Task.objects.filter(retry_of__isnull=False).count() == 250


def test_rows_in_the_wrong_status_are_skipped_and_counted(database, operator):
    Task.objects.enqueue_many([(tasks.noop,)] * 2)[0].cancel()
    asked = ask_about_all(operator, "cancel_selected")
    assert (asked.context["possible"], asked.context["skipped"]) == ("1", "1")
    response = act(operator, asked, follow=True)
    assert "1 task cancelled." in response.content.decode()
    assert "1 task skipped: already finished." in response.content.decode()


def test_many_tasks_want_a_reason(many, operator):
    asked = ask_about_all(operator, "cancel_selected")
    response = act(operator, asked, reason="  ")
    assert response.status_code == 400
    assert "Enter a reason" in response.content.decode()
    assert not Task.objects.cancelled().exists()
    act(operator, response)
    assert Task.objects.cancelled().count() == 250


def test_a_request_stops_in_time_and_the_next_one_goes_on(many, operator, monkeypatch):
    monkeypatch.setattr(bulk, "SECONDS", -1.0)
    asked = ask_about_all(operator, "cancel_selected")
    first = act(operator, asked)
    assert "100 tasks cancelled." in first.content.decode()
    assert Task.objects.cancelled().count() == 100
    second = act(operator, first)
    assert Task.objects.cancelled().count() == 200
    last = act(operator, second, follow=True)
    assert Task.objects.cancelled().count() == 250
    assert "250 tasks cancelled." in last.content.decode()


def test_large_actions_are_logged_as_one_entry(many, operator):
    act(operator, ask_about_all(operator, "cancel_selected"))
    entries = LogEntry.objects.all()
    assert 1 <= len(entries) <= 3
    assert all("INC-204" in entry.change_message for entry in entries)
    assert "100 objects" in entries.last().object_repr


def test_ticked_rows_are_named_by_their_ids(database, operator):
    first, second = Task.objects.enqueue_many([(tasks.noop,)] * 2)
    act(operator, ask(operator, "cancel_selected", _selected_action=[str(first.pk)]))
    first.refresh_from_db()
    second.refresh_from_db()
    assert (first.status, second.status) == ("CANCELLED", "PENDING")


def test_the_list_comes_back_with_its_filter(database, operator):
    Task.objects.enqueue(tasks.noop)
    response = act(operator, ask_about_all(operator, "cancel_selected", "queue=default&status=ready"))
    assert response.url == f"{LIST}?queue=default&status=ready"


def test_a_confirmation_grows_old(database, operator, monkeypatch):
    Task.objects.enqueue(tasks.noop)
    asked = ask_about_all(operator, "cancel_selected")
    real = time.time
    monkeypatch.setattr(signing.time, "time", lambda: real() + selection.MAX_AGE + 1)
    response = act(operator, asked, follow=True)
    assert "This confirmation has expired" in response.content.decode()
    assert not Task.objects.cancelled().exists()


def test_nothing_is_asked_where_nothing_is_ticked(database, operator):
    Task.objects.enqueue(tasks.noop)
    response = ask(operator, "cancel_selected")
    assert response.status_code == 302


def test_run_now_makes_scheduled_tasks_due(database, operator):
    task = Task.objects.enqueue(tasks.scheduled, [1], eta=timedelta(days=3))
    act(operator, ask_about_all(operator, "run_now_selected", "status=scheduled"))
    assert [lease.id for lease in taskqueue.claim("w")] == [task.pk]


def test_all_matching_goes_back_further_than_the_list_looks(database, operator, monkeypatch):
    """No index knows queues, so the list looks at the newest tasks only; an action means all."""
    monkeypatch.setattr(statistics, "LOOK_BACK", 10)
    monkeypatch.setattr(matching, "STRIDE", 7)
    monkeypatch.setattr(bulk, "BATCH", 3)
    Task.objects.enqueue_many([{"func": tasks.noop, "queue": "emails" if n % 10 < 4 else "bulk"} for n in range(60)])
    assert operator.get(LIST, {"queue": "emails"}).context["cl"].result_count < 10
    asked = ask_about_all(operator, "cancel_selected", "queue=emails")
    assert "of the newest 10 tasks" in asked.content.decode()
    response = act(operator, asked, follow=True)
    assert "24 tasks cancelled." in response.content.decode()
    assert set(Task.objects.cancelled().values_list("queue", flat=True)) == {"emails"}
