"""The metrics and the probes over HTTP: who is let in, and what is said to whom."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connections, transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.conf import options
from django_tasks_retry.errors import InvalidOptions
from django_tasks_retry.models import Task
from tests import tasks as plain
from tests.metrics.parser import parse

TOKEN = "a-token-that-is-long-enough"
BEARER = {"authorization": f"Bearer {TOKEN}"}
QUEUES = ["default", "emails", "reports", "bulk"]


def serve(*queues: str, worker: str = "w") -> None:
    taskqueue.register_worker(
        worker, "default", host="h", pid=1, version="1", processes=1, slots=8, queues=list(queues), exclude=[]
    )


def test_metrics_are_off_until_somebody_is_let_in(database, client):
    assert client.get("/tasks/metrics", headers=BEARER).status_code == 404


@pytest.mark.fault("metrics_without_permission")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": TOKEN},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Bearer {TOKEN[:-1]}"},
        {"authorization": "Bearer "},
        {"authorization": "Bearer tökén"},
    ],
)
def test_a_wrong_token_is_refused_without_a_word_about_the_queues(database, client, configure, headers):
    configure(METRICS_TOKEN=TOKEN)
    answer = client.get(f"/tasks/metrics?token={TOKEN}", headers=headers)
    assert answer.status_code == 403
    assert b"django_tasks_due" not in answer.content
    assert TOKEN not in answer.content.decode()


def test_the_token_opens_the_metrics(database, client, configure):
    configure(METRICS_TOKEN=TOKEN)
    answer = client.get("/tasks/metrics", headers=BEARER)
    assert answer.status_code == 200
    assert answer["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert "no-store" in answer["Cache-Control"]
    assert set(QUEUES) == {
        dict(labels)["queue"] for _, labels in parse(answer.content.decode())["django_tasks_due"].samples
    }


def test_a_user_with_the_permission_may_read_and_another_may_not(database, client, configure):
    configure(METRICS_PERMISSION="django_tasks_retry.view_task")
    user = User.objects.create_user("operator")
    client.force_login(user)
    assert client.get("/tasks/metrics").status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_task"))
    assert client.get("/tasks/metrics").status_code == 200


def test_where_only_a_permission_is_set_no_token_opens(database, client, configure):
    configure(METRICS_PERMISSION="django_tasks_retry.view_task")
    for header in ("Bearer None", "Bearer ", "Bearer"):
        assert client.get("/tasks/metrics", headers={"authorization": header}).status_code == 403


def test_a_backend_that_is_none_of_ours_is_not_found(database, client, configure):
    configure(METRICS_TOKEN=TOKEN)
    assert client.get("/tasks/metrics?backend=other", headers=BEARER).status_code == 404
    assert client.post("/tasks/metrics", headers=BEARER).status_code == 405


@pytest.mark.parametrize("value", ["short", 7, "", "ä" * 20, b"x" * 20])
def test_a_token_that_can_be_guessed_is_refused_and_not_repeated(configure, value):
    configure(METRICS_TOKEN=value)
    with pytest.raises(InvalidOptions, match="METRICS_TOKEN") as refused:
        options("default")
    assert "ä" not in str(refused.value)
    configure(METRICS_TOKEN=TOKEN)
    assert TOKEN not in repr(options("default"))


# Probes


def test_live_asks_no_database(client):
    """Without the fixture of a database every statement is an error."""
    answer = client.get("/tasks/live")
    assert (answer.status_code, answer.content) == (200, b"live\n")


def test_ready_where_every_queue_is_served(database, client):
    serve("*")
    assert client.get("/tasks/ready").content == b"ready\n"


@pytest.mark.fault("unserved_queue_or_incomplete_schema")
def test_not_ready_where_a_queue_is_not_served(database, client, configure, travel):
    configure(METRICS_TOKEN=TOKEN)
    serve("default", "e*")
    serve("bulk", worker="v")
    answer = client.get("/tasks/ready", headers=BEARER)
    assert answer.status_code == 503
    assert answer.content.decode() == "not ready\nno worker heard of within 30 s serves the queue 'reports'\n"
    assert client.get("/tasks/ready").content == b"not ready\n", "details are for those who may read the metrics"
    taskqueue.pause("reports", by="me")
    assert client.get("/tasks/ready").status_code == 200, "what is paused is paused on purpose"


@pytest.mark.fault("unserved_queue_or_incomplete_schema")
def test_a_worker_counts_while_it_was_heard_of_recently(database, client, travel):
    serve("*")
    travel(40)
    assert client.get("/tasks/ready").status_code == 503
    assert client.get("/tasks/ready?within=60").status_code == 200
    for nonsense in ("x", "-1", "nan", "1e99"):
        assert client.get(f"/tasks/ready?within={nonsense}").status_code == 503
    taskqueue.heartbeat("w", "default", 0)
    assert client.get("/tasks/ready").status_code == 200
    taskqueue.deregister_worker("w", "default")
    assert client.get("/tasks/ready").status_code == 503


def test_with_any_queue_allowed_those_with_work_must_be_served(database, client, settings):
    settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": []}}
    assert client.get("/tasks/ready").status_code == 503
    serve("emails")
    assert client.get("/tasks/ready").status_code == 200
    Task.objects.enqueue(plain.noop, queue="tenant-7")
    assert client.get("/tasks/ready").status_code == 503


@pytest.mark.fault("unserved_queue_or_incomplete_schema")
def test_not_ready_without_a_migration_or_the_guard(database, client, configure):
    configure(METRICS_TOKEN=TOKEN)
    serve("*")
    with connections[database].cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'django_tasks_retry' AND name LIKE '0002%%'")
    assert b"migrations are not applied: 0002_postgresql" in client.get("/tasks/ready", headers=BEARER).content
    with connections[database].cursor() as cursor:
        cursor.execute(
            "INSERT INTO django_migrations (app, name, applied) SELECT app, '0002_postgresql', applied "
            "FROM django_migrations WHERE app = 'django_tasks_retry' AND name LIKE '0001%%'"
        )
        if connections[database].vendor == "sqlite":
            cursor.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name LIKE '%%_task' LIMIT 1")
            cursor.execute(f"DROP TRIGGER {cursor.fetchone()[0]}")
        else:
            cursor.execute("ALTER TABLE django_tasks_retry_task DISABLE TRIGGER USER")
    assert b"does not enforce the task contract" in client.get("/tasks/ready", headers=BEARER).content


@pytest.mark.fault("unserved_queue_or_incomplete_schema")
@pytest.mark.parametrize(
    ("hide", "answered"),
    [("", "does not have the tables"), ("COLUMN exclude", "does not (answer|enforce)")],
    ids=["table", "column"],
)
def test_not_ready_without_a_table_or_column(database, client, configure, caplog, hide, answered):
    configure(METRICS_TOKEN=TOKEN)
    with transaction.atomic(using=database):
        with connections[database].cursor() as cursor:
            cursor.execute(f"ALTER TABLE django_tasks_retry_worker RENAME {hide} TO hidden")
        answer = client.get("/tasks/ready", headers=BEARER)
        transaction.set_rollback(True, using=database)
    assert answer.status_code == 503
    assert re.search(answered, answer.content.decode())
    assert not [each for each in caplog.records if each.name == "django.request"], "a probe mails nobody"
