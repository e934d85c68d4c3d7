"""Enqueue either stores the task and returns it, or raises and stores nothing, whatever becomes of the wake-up."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from django.db import connections, transaction

from django_tasks_retry.errors import InvalidCall
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import EnqueueOptions
from django_tasks_retry.taskqueue.enqueue import notify
from tests import tasks
from tests.steps import enqueue
from tests.worker.harness import ROOT, environment, place_of

OTHER = {"default": "postgresql", "postgresql": "default"}
WAYS = {
    "one": lambda: [enqueue()],
    "one with a key": lambda: [enqueue(unique_key="k")],
    "many": lambda: Task.objects.enqueue_many([tasks.noop, tasks.noop]),
    "by the framework": lambda: [tasks.noop.enqueue()],
}
AT_EXIT = """
import atexit, django
django.setup()
from django.db import transaction
from tests.router import CurrentDatabase
from tests.worker.tasks import canary

def at_the_end():
    print(canary.enqueue().status)
    with transaction.atomic(using=CurrentDatabase.current):
        canary.enqueue()
        transaction.on_commit(lambda: print("hook"), using=CurrentDatabase.current)

atexit.register(at_the_end)
"""


@pytest.fixture
def no_threads(monkeypatch):
    """As at the limit of a container's processes."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(notify, "_notifiers", {})
    monkeypatch.setattr(threading.Thread, "start", refuse)


@pytest.mark.fault("enqueued_while_the_process_ends")
def test_a_process_that_ends_enqueues_and_runs_its_hooks(committed, tmp_path):
    """From Python 3.12 on no thread can be started then."""
    variables = environment(committed, tmp_path, place_of(committed), {})
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT],
        env=variables,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.stdout.split(), done.returncode) == (["READY", "hook"], 0), done.stderr
    assert Task.objects.count() == 2


@pytest.mark.fault("no_thread_available")
@pytest.mark.parametrize("way", WAYS)
def test_without_threads_what_is_stored_is_returned(committed, no_threads, way):
    assert len(WAYS[way]()) == Task.objects.count()


@pytest.mark.fault("no_thread_available")
def test_without_threads_later_hooks_run(committed, no_threads):
    ran = []
    with transaction.atomic(using=committed):
        task = enqueue()
        transaction.on_commit(lambda: ran.append("hook"), using=committed)
    task.cancel()
    assert ran == ["hook"]


@pytest.mark.fault("no_thread_available")
def test_without_threads_a_process_does_not_wait_for_what_was_never_sent(committed, no_threads):
    enqueue()
    assert not any(notifier.gathered for notifier in notify._notifiers.values())


@pytest.mark.fault("transactions_managed_by_hand")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ending", ["commit", "rollback"])
def test_a_caller_may_manage_transactions_by_hand(committed, way, ending):
    transaction.set_autocommit(False, using=committed)
    try:
        made = WAYS[way]()
        getattr(transaction, ending)(using=committed)
    finally:
        transaction.rollback(using=committed)
        transaction.set_autocommit(True, using=committed)
    assert Task.objects.count() == (len(made) if ending == "commit" else 0)


@pytest.mark.fault("transactions_managed_by_hand")
def test_a_task_is_cancelled_in_a_transaction_managed_by_hand(committed):
    task = enqueue()
    transaction.set_autocommit(False, using=committed)
    try:
        task.cancel()
        transaction.commit(using=committed)
    finally:
        transaction.set_autocommit(True, using=committed)
    assert Task.objects.get().status == "CANCELLED"


def backends(settings, **mail):
    ours = settings.TASKS["default"]
    settings.TASKS = {"default": ours, "mail": {**ours, "OPTIONS": mail}}


@pytest.mark.fault("tasks_of_two_databases_at_once")
def test_tasks_of_two_databases_are_not_enqueued_together(database, settings):
    backends(settings, DATABASE=OTHER[database])
    both = [EnqueueOptions(tasks.noop), EnqueueOptions(tasks.noop, backend="mail")]
    with pytest.raises(InvalidCall) as refused:
        Task.objects.enqueue_many(both)
    assert f"'default' in the database '{database}', 'mail' in the database '{OTHER[database]}'" in str(refused.value)
    assert "once for each database" in str(refused.value)
    assert not any(Task.objects.using(alias).exists() for alias in OTHER)
    for request in both:
        assert Task.objects.enqueue_many([request])


@pytest.mark.fault("tasks_of_two_databases_at_once")
def test_tasks_of_two_backends_in_one_database_are(database, settings):
    backends(settings)
    made = Task.objects.enqueue_many([EnqueueOptions(tasks.noop), EnqueueOptions(tasks.noop, backend="mail")])
    assert [task.backend for task in made] == ["default", "mail"]


@pytest.fixture
def pool_of_one(committed, monkeypatch):
    """The current database's connections come from a pool that has one."""
    connection = connections[committed]
    connection.close()
    monkeypatch.setattr(notify, "_notifiers", {})
    with monkeypatch.context() as patch:
        patch.setitem(connection.settings_dict["OPTIONS"], "pool", {"min_size": 1, "max_size": 1, "timeout": 5})
        yield connection
        connection.close()
        connection.close_pool()


@pytest.mark.fault("pool_of_one_connection")
@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_the_wake_up_leaves_the_pool_to_the_project(pool_of_one):
    listener = notify.unpooled(pool_of_one.alias)
    try:
        listener.ensure_connection()
        listener.connection.autocommit = True
        listener.connection.execute(f"LISTEN {notify.CHANNEL}")
        enqueue()
        pool_of_one.close()  # as at the end of a request
        assert [note.payload for note in listener.connection.notifies(timeout=60, stop_after=1)] == ["work:default"]
        assert notify._notifiers[pool_of_one.alias].thread is not None
        assert pool_of_one.pool.get_stats()["pool_available"] == 1
    finally:
        listener.close()


@pytest.mark.parametrize("on", ["postgresql"], indirect=True)
def test_a_burst_is_announced_over_one_connection(committed, monkeypatch):
    opened = []
    monkeypatch.setattr(notify, "_notifiers", {})
    make = connections.create_connection
    monkeypatch.setattr(connections, "create_connection", lambda alias: opened.append(alias) or make(alias))
    for _ in range(20):
        enqueue()
        notify._notifiers[committed].wait_until_sent()
    assert opened == [committed]
