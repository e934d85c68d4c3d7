"""A failover to a synchronous standby: no acknowledged task is lost, none is finished twice.

One in an ordinary run; FAULTS=all makes it twenty.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from uuid import UUID

import psycopg
import pytest
from django.db import connections

from django_tasks_retry.models import Task
from tests.faults.failover import NAME, Primary, Standby
from tests.proxy import Proxy
from tests.worker import tasks
from tests.worker.conftest import Start, starter
from tests.worker.harness import story, wait_for
from tests.worker.trouble import ALIAS, answered, used_once, wait_until_all_finished

TIMES = 20 if os.environ.get("FAULTS") == "all" else 1


@pytest.fixture
def primary(django_db_blocker) -> Iterator[Primary]:
    with used_once(Primary(), django_db_blocker) as server:
        yield server


@pytest.fixture
def standby(primary: Primary) -> Iterator[Standby]:
    standby = Standby(primary.cluster)
    try:
        standby.initdb()
        standby.start()
        in_step(primary)
        yield standby
    finally:
        standby.remove()


def in_step(primary: Primary) -> None:
    with psycopg.connect(**primary.direct(), autocommit=True) as admin:
        admin.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{NAME}'")
        admin.execute("SELECT pg_reload_conf()")
        asked = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"
        wait_for(lambda: admin.execute(asked).fetchone(), "a synchronous standby")


@pytest.fixture
def proxy(primary: Primary) -> Iterator[Proxy]:
    """Everybody reaches the server that serves through it."""
    proxy = Proxy(primary.cluster.port)
    connections[ALIAS].settings_dict["PORT"] = str(proxy.port)
    connections[ALIAS].close()
    yield proxy
    proxy.close()


@pytest.fixture
def start(primary: Primary, proxy: Proxy, tmp_path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, primary.place(proxy.port))


@pytest.mark.fault("failover")
@pytest.mark.parametrize("_nth", range(TIMES))
def test_no_acknowledged_task_is_lost_in_a_synchronous_failover(primary, standby, proxy, start, effects, _nth):
    worker = start("--processes", "2", lease=4.0)
    worker.wait_until_up()
    acknowledged = enqueue_until_broken(lambda: primary.fail_over(standby))
    proxy.server_port = standby.port
    proxy.reset_all()
    wait_until_all_finished()
    statuses = dict(Task.objects.values_list("pk", "status"))
    assert {statuses.get(pk) for pk in acknowledged} == {"SUCCESS"}
    assert all(story(task).count("completed") == 1 for task in Task.objects.all())
    assert worker.process.poll() is None


def enqueue_until_broken(break_it) -> set[UUID]:
    """Tasks acknowledged before the server went away and at that very moment."""
    acknowledged: set[UUID] = set()
    breaking = threading.Thread(target=break_it)
    while found := answered(lambda: [task.pk for task in Task.objects.enqueue_many([tasks.canary] * 3)]):
        acknowledged |= set(found)
        if len(acknowledged) == 150:
            breaking.start()
    breaking.join()
    return acknowledged
