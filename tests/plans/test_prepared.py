"""A user's own database options must not make our statements fail, nor keep their plans."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connections

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks
from tests.plans.crowds import USING
from tests.router import CurrentDatabase

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", USING])


@pytest.fixture
def preparing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A connection that binds on the server and prepares every statement at once."""
    monkeypatch.setattr(CurrentDatabase, "current", USING)
    usual = connections[USING]
    connections[USING] = connections.create_connection(USING)
    connections[USING].settings_dict = {
        **usual.settings_dict,
        "OPTIONS": {"server_side_binding": True, "prepare_threshold": 0},
    }
    yield
    connections[USING].close()
    connections[USING] = usual


def prepared() -> list[str]:
    with connections[USING].cursor() as cursor:
        cursor.execute("SELECT statement FROM pg_prepared_statements")
        return [statement for (statement,) in cursor.fetchall()]


def test_every_verb_works_with_server_side_binding_and_leaves_nothing_prepared(preparing):
    for n in range(3):
        Task.objects.enqueue(tasks.noop, unique_key="key", metadata={"n": n})
    Task.objects.enqueue_many([taskqueue.EnqueueOptions(tasks.noop, interval=60)])
    kept, done = taskqueue.claim("worker/1", limit=5)
    assert taskqueue.renew([done, kept]) == {}
    taskqueue.complete_task(done)
    assert len(taskqueue.recover(dead="worker/1", actor="worker")) == 1
    taskqueue.fail_task(taskqueue.claim("worker/2")[0], ValueError("no"))
    assert list(taskqueue.prune()) == []
    assert Task.objects.count() == 3
    statements = prepared()
    assert any("SELECT" in statement for statement in statements), "the connection does prepare"
    assert [statement for statement in statements if statement.startswith("--")] == []
