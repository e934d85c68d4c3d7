"""OPTIONS["CONSOLE_DATABASE"]: lists, charts and metrics come from a replica, the rest from the primary."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from django.db import OperationalError, connections

from django_tasks_retry import taskqueue
from django_tasks_retry.metrics import scrape
from django_tasks_retry.models import Queue, Task
from django_tasks_retry.taskqueue.engines.statements import SQL
from tests import tasks
from tests.conftest import ALIASES
from tests.pg import PgCluster
from tests.router import CurrentDatabase
from tests.worker.harness import wait_for

BASE = "/admin/django_tasks_retry"


@pytest.fixture
def replica(database: str, settings) -> str:
    """The other database of the suite: what it holds shows who was asked."""
    other = next(alias for alias in ALIASES.values() if alias != database)
    backend = settings.TASKS["default"]
    settings.TASKS = {
        "default": {**backend, "QUEUES": [], "OPTIONS": {**backend.get("OPTIONS", {}), "CONSOLE_DATABASE": other}}
    }
    return other


def copy_to(replica: str, monkeypatch) -> Task:
    """Enqueue a task that the replica alone knows."""
    with monkeypatch.context() as patched:
        patched.setattr(CurrentDatabase, "current", replica)
        return Task.objects.enqueue(tasks.noop, queue="on-the-replica")


@pytest.mark.parametrize(
    "page", ["task/", "overview/", "queue/", "flowlimit/", "worker/", "taskfunction/", "schedule/"]
)
def test_lists_are_read_from_the_replica_and_say_so(database, operator, replica, monkeypatch, page):
    copy_to(replica, monkeypatch)
    statements: list[str] = []
    with connections[database].execute_wrapper(lambda execute, *given: statements.append(given[0]) or execute(*given)):
        shown = operator.get(f"{BASE}/{page}").rendered_content
    assert "Read from a replica" in shown
    assert [sql for sql in statements if "django_tasks_retry_" in sql] == []


def test_the_page_and_the_actions_of_one_task_use_the_primary(database, operator, replica, monkeypatch):
    there, here = copy_to(replica, monkeypatch), Task.objects.enqueue(tasks.noop)
    assert str(there.pk) in operator.get(f"{BASE}/task/").rendered_content
    assert operator.get(f"{BASE}/task/{there.pk}/change/").status_code == 404
    page = operator.get(f"{BASE}/task/{here.pk}/change/")
    assert page.status_code == 200
    assert "Read from a replica" not in page.rendered_content
    operator.post(f"{BASE}/task/{here.pk}/cancel/", {"reason": "x"})
    assert Task.objects.get(pk=here.pk).status == "CANCELLED"


def test_the_page_after_an_action_shows_what_was_done(database, operator, replica):
    Task.objects.enqueue(tasks.noop)
    answer = operator.post(f"{BASE}/queue/default/pause/", {"reason": "x"}, follow=True)
    assert Queue.objects.using(database).get(pk="default").paused_at
    assert "paused by" in answer.rendered_content
    assert "Read from a replica" in operator.get(f"{BASE}/queue/").rendered_content


def test_metrics_are_read_from_the_replica(database, replica, monkeypatch):
    copy_to(replica, monkeypatch)
    assert 'queue="on-the-replica"' in scrape()
    assert taskqueue.database() == database


def test_a_replica_that_is_away_costs_no_page(database, operator, replica, monkeypatch):
    Task.objects.enqueue(tasks.noop, queue="on-the-primary")

    def refuse(*_: object) -> None:
        raise OperationalError("the server closed the connection")

    with connections[replica].execute_wrapper(refuse):
        page = operator.get(f"{BASE}/queue/").rendered_content
        assert 'queue="on-the-primary"' in scrape()
    assert "on-the-primary" in page
    assert "The replica does not answer" in page


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[PgCluster, PgCluster]]:
    """A primary and a standby that streams from it."""
    primary, standby = PgCluster(settings={"wal_level": "replica"}), PgCluster()
    try:
        primary.initdb()
        primary.start()
        standby.copy_of(primary)
        standby.start()
        yield primary, standby
    finally:
        standby.remove()
        primary.remove()


def ask(cluster: PgCluster, sql: str) -> object:
    with psycopg.connect(host="127.0.0.1", port=cluster.port, user="postgres", autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchone()[0] if cursor.description else None


@pytest.mark.long
def test_a_replica_tells_how_far_it_is_behind(pair):
    primary, standby = pair
    lag = SQL["postgresql"]["replica_lag"]
    assert ask(primary, lag) == 0
    ask(primary, "CREATE TABLE told (at int)")
    wait_for(lambda: ask(standby, lag) == 0, "a standby that streams")
    ask(standby, "SELECT pg_wal_replay_pause()")
    ask(primary, "INSERT INTO told VALUES (1)")
    wait_for(lambda: (ask(standby, lag) or 0) > 0, "a lag")  # unknown until a transaction was replayed
    ask(standby, "SELECT pg_wal_replay_resume()")
    wait_for(lambda: ask(standby, lag) == 0, "the end of the lag")
