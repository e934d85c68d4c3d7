"""OPTIONS["ENQUEUE_TIMEOUT"]: enqueue raises if the server is silent, and says whether the task may exist."""

from __future__ import annotations

import math
import os
import signal
import threading
from collections.abc import Iterator

import pytest
from asgiref.sync import async_to_sync
from django.db import Error, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from django_tasks_retry.conf import read_options
from django_tasks_retry.errors import EnqueueTimeout, InvalidOptions, QueueFull
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue.database import shut_socket
from django_tasks_retry.taskqueue.enqueue import deadline, enqueue
from tests import tasks
from tests.proxy import Proxy
from tests.worker.harness import wait_for

pytestmark = pytest.mark.parametrize("on", ["postgresql"], indirect=True)
SECONDS = 0.4
AMPLE = 60  # for what must succeed, however busy the machine is


def stream(calls: int) -> None:
    Task.objects.enqueue_many((tasks.noop for _ in range(calls)), returning=False)


WAYS = {
    "one": lambda: Task.objects.enqueue(tasks.noop),
    "one with a key": lambda: Task.objects.enqueue(tasks.noop, unique_key="k"),
    "by the framework": lambda: tasks.noop.enqueue(),
    "async": lambda: async_to_sync(tasks.noop.aenqueue)(),
    "many": lambda: Task.objects.enqueue_many([tasks.noop, tasks.noop]),
    "a long list": lambda: Task.objects.enqueue_many([tasks.noop] * 5),
    "a stream": lambda: stream(5),
}


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    monkeypatch.setattr(enqueue, "CHUNK", 2)


@pytest.fixture
def timeout(settings) -> None:
    ours = settings.TASKS["default"]
    settings.TASKS = {"default": {**ours, "OPTIONS": {**ours.get("OPTIONS", {}), "ENQUEUE_TIMEOUT": SECONDS}}}


@pytest.fixture
def proxy(committed, monkeypatch) -> Iterator[Proxy]:
    """The way to the server, for all threads of this process: they share the settings of a connection."""
    connection = connections[committed]
    connection.close()
    proxy = Proxy(int(connection.settings_dict["PORT"]))
    with monkeypatch.context() as patch:
        direct = {"sslmode": "disable", "gssencmode": "disable"}
        patch.setitem(connection.settings_dict, "OPTIONS", {**connection.settings_dict["OPTIONS"], **direct})
        patch.setitem(connection.settings_dict, "HOST", "127.0.0.1")
        patch.setitem(connection.settings_dict, "PORT", str(proxy.port))
        yield proxy
        proxy.close()
        connection.close()


@pytest.fixture
def connection(committed) -> BaseDatabaseWrapper:
    return connections[committed]


def no_second_connection(params: dict[str, object]) -> None:
    raise AssertionError(f"connects again, to {params}, though the time is over")


def no_watcher_is_left() -> bool:
    return not any(thread.name == "django_tasks_retry.deadline" for thread in threading.enumerate())


@pytest.mark.parametrize("way", WAYS)
def test_a_server_that_falls_silent_ends_the_call_and_the_task_may_exist(proxy, connection, timeout, monkeypatch, way):
    connection.ensure_connection()
    proxy.mode = "swallow"
    monkeypatch.setattr(connection, "get_new_connection", no_second_connection)
    with pytest.raises(EnqueueTimeout, match=r"within 0.4 s. Task .* may exist") as raised:
        WAYS[way]()
    assert raised.value.may_exist
    assert isinstance(raised.value.__cause__, Error)
    assert connection.connection is None
    monkeypatch.undo()
    proxy.mode = "pass"
    assert not Task.objects.filter(id__in=raised.value.ids)
    wait_for(no_watcher_is_left, "the end of the thread", 60)


@pytest.mark.parametrize("way", ["one", "a long list", "a stream"])
def test_a_server_that_cannot_be_reached_has_no_task(proxy, timeout, configure, way):
    proxy.mode = "swallow"
    with pytest.raises(EnqueueTimeout, match=r"was not sent, so task .* does not exist") as raised:
        WAYS[way]()
    assert not raised.value.may_exist
    proxy.mode = "pass"
    assert not Task.objects.exists()
    configure(ENQUEUE_TIMEOUT=AMPLE)
    tasks.noop.enqueue()
    assert Task.objects.count() == 1


def test_a_frozen_server_may_store_the_task_when_it_thaws(committed, connection, configure):
    configure(ENQUEUE_TIMEOUT=3)  # a busy machine takes tenths of a second to send the statement
    tasks.noop.enqueue()  # the first call of a process asks the server other things
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [pid] = cursor.fetchone()
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(EnqueueTimeout) as raised:
            tasks.noop.enqueue()
    finally:
        os.kill(pid, signal.SIGCONT)
    [task_id] = raised.value.ids
    wait_for(lambda: Task.objects.filter(id=task_id).exists(), "the task that may exist", 60)


def test_a_connection_that_is_checked_first_costs_one_timeout_and_stores_nothing(
    proxy, connection, timeout, monkeypatch
):
    connection.ensure_connection()
    proxy.mode = "swallow"
    connects = []
    with monkeypatch.context() as patch:
        patch.setattr(connection, "health_check_enabled", True)
        patch.setattr(connection, "health_check_done", False)
        patch.setattr(connection, "get_new_connection", connects.append)
        with pytest.raises(EnqueueTimeout) as raised:
            tasks.noop.enqueue()
    assert (raised.value.may_exist, connects) == (False, [])


def test_threads_have_their_own_deadlines(proxy, timeout):
    raised = []

    def produce() -> None:
        try:
            connections["postgresql"].ensure_connection()
            barrier.wait()
            barrier.wait()
            tasks.noop.enqueue()
        except EnqueueTimeout as error:
            raised.extend(error.ids)
        finally:
            connections.close_all()

    barrier = threading.Barrier(5)
    producers = [threading.Thread(target=produce) for _ in range(4)]
    for each in producers:
        each.start()
    barrier.wait()
    proxy.mode = "swallow"
    barrier.wait()
    for each in producers:
        each.join()
    assert len(set(raised)) == 4


def test_inside_a_transaction_the_connection_is_the_callers(committed, timeout, monkeypatch):
    monkeypatch.setattr(deadline.threading, "Thread", None)
    with transaction.atomic(using=committed):
        tasks.noop.enqueue()
    transaction.set_autocommit(False, using=committed)
    tasks.noop.enqueue()
    transaction.commit(using=committed)
    transaction.set_autocommit(True, using=committed)
    assert Task.objects.count() == 2


def test_without_the_option_nothing_watches(committed, monkeypatch):
    monkeypatch.setattr(deadline.threading, "Thread", None)
    tasks.noop.enqueue()
    assert Task.objects.count() == 1


def test_slow_chunks_of_the_project_do_not_count(committed, connection, configure):
    """While the project makes the second chunk no time is running, and the third has the whole time again."""
    configure(ENQUEUE_TIMEOUT=AMPLE)
    left = []

    def calls() -> Iterator[object]:
        yield from [tasks.noop] * 2
        left.append(running(connection).shut_at)
        yield from [tasks.noop] * 2
        left.append(running(connection).shut_at)

    assert Task.objects.enqueue_many(calls(), returning=False) == 4
    assert left == [math.inf, math.inf]
    assert len(Task.objects.enqueue_many([tasks.noop] * 5)) == 5


def test_an_answer_of_the_server_stays_an_answer(committed, connection, configure, monkeypatch):
    """An error that comes after the time was over is told as it is."""
    configure(ENQUEUE_TIMEOUT=AMPLE)

    def full_at_last(sent: list[Task], using: str) -> None:
        deadline = running(connection)
        deadline.shut_at, deadline.has_passed = 0, True  # as the thread does when the time is over
        shut_socket(connection.connection)
        raise QueueFull("default", 1)

    with monkeypatch.context() as patch:
        patch.setattr(enqueue, "check_backlog", full_at_last)
        with pytest.raises(QueueFull):
            tasks.noop.enqueue()
    assert tasks.noop.enqueue().status == "READY"


def running(connection: BaseDatabaseWrapper) -> deadline.EnqueueDeadline:
    """Return the deadline of the enqueue that has this connection."""
    return connection.get_connection_params.__self__


def test_an_error_in_time_is_the_drivers(proxy, configure):
    configure(ENQUEUE_TIMEOUT=AMPLE)
    proxy.mode = "refuse"
    with pytest.raises(OperationalError) as raised:
        tasks.noop.enqueue()
    assert not isinstance(raised.value, EnqueueTimeout)


@pytest.mark.parametrize("value", [0, -1, "5"])
def test_the_option_is_a_number_of_seconds(on, value):
    with pytest.raises(InvalidOptions, match="ENQUEUE_TIMEOUT"):
        read_options({"ENQUEUE_TIMEOUT": value}, "default")
