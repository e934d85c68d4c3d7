"""A row of a worker that cannot be read or makes no sense costs itself alone."""

from __future__ import annotations

import logging

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Worker
from django_tasks_retry.taskqueue.reading import log_once
from django_tasks_retry.taskqueue.statistics.snapshot import take_snapshot
from tests.admin.conftest import operator  # noqa: F401 - a fixture
from tests.admin.unguarded import without_guard
from tests.cli.conftest import cli  # noqa: F401 - a fixture

BASE = "/admin/django_tasks_retry/"
FACTS = {"host": "h", "pid": 1, "version": "1", "processes": 1, "slots": 3, "queues": ["default"], "tasks": ["a.b"]}
ODD = {
    "queues": "5",
    "tasks": "5",
    "exclude": "[5]",
    "schedules": "5",
    "started_at": "-infinity",
}


@pytest.fixture(params=ODD)
def odd(request, database) -> str:
    """The name of a column that is odd, in a worker beside another."""
    log_once.cache_clear()
    for name in ("odd", "sound"):
        taskqueue.register_worker(name, "default", schedules=[name], **FACTS)
    with without_guard(database, Worker._meta.db_table), connections[database].cursor() as cursor:
        cursor.execute(
            f"UPDATE {Worker._meta.db_table} SET {request.param} = %s WHERE id = 'odd'", [ODD[request.param]]
        )
    return request.param


def test_the_others_are_counted_and_the_odd_one_is_named_once(odd, caplog):
    with caplog.at_level(logging.WARNING):
        assert [take_snapshot().workers for _ in range(2)] in ([1, 1], [2, 2])
        assert [worker.pk for worker in taskqueue.sound_workers(taskqueue.alive_workers())] == ["sound"]
        assert [worker.pk for worker in taskqueue.sound_workers(taskqueue.alive_workers())] == ["sound"]
    told = [record.getMessage() for record in caplog.records if "'odd'" in record.getMessage()]
    assert len(told) == 1
    assert odd in told[0]


def test_the_others_share_wake_ups(odd):
    assert "sound" in [peer.id for peer in taskqueue.heartbeat("sound", "default")]
    assert all(isinstance(peer.queues, list) for peer in taskqueue.heartbeat("sound", "default"))
    assert taskqueue.stop_vanished() == []


def test_the_console_shows_the_others(odd, operator):  # noqa: F811
    for page in ("worker/", "overview/", "queue/"):
        response = operator.get(BASE + page)
        assert response.status_code == 200, page
    assert "sound" in operator.get(f"{BASE}worker/").content.decode()


def test_the_shell_lists_the_others(odd, cli):  # noqa: F811
    assert "sound" in cli("workers").out
    assert cli("queues").code == 0
