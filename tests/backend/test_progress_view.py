"""Progress in pages of the project: a signed address, and one event for each question."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AnonymousUser
from django.core import signing
from django.test import AsyncClient, Client

from django_tasks_retry import call, progress, taskqueue
from django_tasks_retry.bridge import read_result
from django_tasks_retry.errors import InvalidCall
from django_tasks_retry.models import Task
from tests import tasks
from tests.admin.unguarded import overwrite


def told(client, url: str) -> dict:
    answer = client.get(url)
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert "no-store" in answer.headers["Cache-Control"]
    return json.loads(answer.content.decode().partition("data: ")[2])


def test_a_task_tells_how_far_it_is_until_it_has_ended(database, client):
    task = Task.objects.enqueue(tasks.noop)
    url = progress.url(task)
    assert told(client, url) == {
        "status": "PENDING", "done": None, "total": None, "share": None, "note": "", "ended": False,
    }  # fmt: skip
    [lease] = taskqueue.claim("w")
    taskqueue.renewal.report_progress(lease, 25, 100, "importing")
    assert told(client, url)["share"] == 0.25
    assert told(client, url)["note"] == "importing"
    taskqueue.finish([taskqueue.Completed(lease)])
    assert told(client, url) | {"note": ""} == {
        "status": "SUCCESS", "done": 25, "total": 100, "share": 1.0, "note": "", "ended": True,
    }  # fmt: skip


def test_a_browser_that_has_seen_the_end_is_told_to_ask_no_more(database, client):
    task = Task.objects.enqueue(tasks.noop)
    taskqueue.cancel([task.pk])
    url = progress.url(task)
    assert "id: end\n" in client.get(url).content.decode()
    assert client.get(url, headers={"Last-Event-ID": "end"}).status_code == 204
    gone = progress.url("0199abcd-0000-7000-8000-000000000000")
    assert client.get(gone).status_code == 204


def test_a_batch_tells_how_much_of_it_has_ended_and_failed(database, client):
    rows = Task.objects.enqueue_many([call(tasks.noop, n) for n in range(4)], then=call(tasks.noop))
    url = progress.url(Task.objects.batch(rows[0]))
    leases = taskqueue.claim("w", limit=2)
    taskqueue.finish([taskqueue.Completed(leases[0])])
    taskqueue.cancel([rows[3].pk])
    assert told(client, url) == {
        "status": "RUNNING", "done": 2, "total": 4, "failed": 1, "share": 0.5, "ended": False,
    }  # fmt: skip


def test_nobody_learns_of_a_task_by_its_id(database, client):
    task = Task.objects.enqueue(tasks.noop)
    url = progress.url(task)
    for token in (
        str(task.pk),
        url.rpartition("/")[2][:-1],
        signing.dumps(["task", str(task.pk), "default", 60, None]),
    ):
        assert client.get(url.rpartition("/")[0] + f"/{token}").status_code == 404


def test_an_address_of_a_user_answers_nobody_else(database, client):
    users = [get_user_model().objects.create(username=name) for name in ("olga", "mallory")]
    url = progress.url(Task.objects.enqueue(tasks.noop), user=users[0])
    assert client.get(url).status_code == 404
    client.force_login(users[1])
    assert client.get(url).status_code == 404
    client.force_login(users[0])
    assert told(client, url)["status"] == "PENDING"


def test_an_address_expires(database, client):
    url = progress.url(Task.objects.enqueue(tasks.noop), max_age=timedelta(seconds=-1))
    assert client.get(url).status_code == 404


def test_it_takes_the_result_of_enqueue_too(database, client):
    task = Task.objects.enqueue(tasks.noop)
    assert told(client, progress.url(read_result(str(task.pk), "default")))["status"] == "PENDING"


@pytest.mark.parametrize("verb", ["post", "put", "delete"])
def test_it_only_reads(verb, database, client):
    assert getattr(client, verb)(progress.url(Task.objects.enqueue(tasks.noop))).status_code == 405


def test_what_takes_long_rests_long(database, client, monkeypatch):
    url = progress.url(Task.objects.enqueue(tasks.noop))
    assert client.get(url).content.decode().startswith("retry: 1")
    readings = iter([0.0, 0.5])
    monkeypatch.setattr(progress, "monotonic", lambda: next(readings))
    assert client.get(url).content.decode().startswith("retry: 10000\n")


def test_an_asgi_server_answers_alike(committed):
    from asgiref.sync import async_to_sync

    url = progress.url(Task.objects.enqueue(tasks.noop))
    answer = async_to_sync(AsyncClient().get)(url)
    assert answer.status_code == 200
    assert b'"PENDING"' in answer.content
    assert Client().get(url).content.partition(b"data")[2] == answer.content.partition(b"data")[2]


@pytest.mark.parametrize(
    "odd", [{"done": 10**400, "total": 1}, {"done": 1e308, "total": 1e-308}, {"done": 1}, [1], {"note": ["x" * 9999]}]
)
def test_odd_rows_are_told_in_numbers_that_a_browser_reads(database, client, odd):
    task = Task.objects.enqueue(tasks.noop)
    overwrite(task, database, progress=json.dumps(odd))
    answer = client.get(progress.url(task)).content.decode()
    found = json.loads(answer.partition("data: ")[2], parse_constant=pytest.fail)
    assert found["share"] is None
    assert len(answer) < 1000


def test_an_address_for_nobody_is_refused_and_one_of_a_backend_that_is_gone_is_not_found(database, client):
    task = Task.objects.enqueue(tasks.noop)
    with pytest.raises(InvalidCall, match="Nobody is logged in"):
        progress.url(task, user=AnonymousUser())
    token = signing.dumps(["task", str(task.pk), "gone", 60.0, None], salt=progress.SALT)
    assert client.get(progress.url(task).rpartition("/")[0] + f"/{token}").status_code == 404
