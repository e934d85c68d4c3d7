"""A worker inside the web process: the same leases, fence and duties, from threads."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial

import pytest
from django.contrib.auth import get_user_model

from django_tasks_retry import embedded, registry, retry, taskqueue
from django_tasks_retry.compat import task
from django_tasks_retry.errors import InvalidOptions
from django_tasks_retry.models import Task, TaskEvent, TaskStat, Worker
from tests.model.invariants import violations
from tests.races.together import wait_until

release = threading.Event()
seen: list[int] = []


@task
@retry(max_attempts=1)
def note(n: int) -> int:
    seen.append(n)
    return n


@task
@retry(max_attempts=2, timeout=0.2)
def hold() -> None:
    seen.append(0)
    release.wait(20)


@task
async def later(n: int) -> int:
    return n + 1


@task
@retry(atomic=True)
def write_row() -> None:
    get_user_model().objects.create(username="written")


@pytest.fixture
def start(committed: str) -> Iterator[Callable[..., embedded.EmbeddedWorker]]:
    for each in (note, hold, later, write_row):
        registry.register(each)
    seen.clear()
    release.clear()
    yield lambda **options: embedded.start(**{"poll": 0.05, "grace": 1.0} | options)
    release.set()
    embedded.stop()


until = partial(wait_until, what="the embedded worker to have done it")


def statuses(made: list[Task]) -> set[str]:
    return set(Task.objects.filter(pk__in=[each.pk for each in made]).values_list("status", flat=True))


def test_it_runs_what_is_enqueued_and_leaves_a_clean_history(start, committed):
    made = Task.objects.enqueue_many([(note, [n]) for n in range(5)] + [(later, [1]), (write_row,)])
    start()
    until(lambda: statuses(made) == {"SUCCESS"})
    assert sorted(seen) == list(range(5))
    late = [Task.objects.enqueue(note, [7])]
    until(lambda: statuses(late) == {"SUCCESS"})
    embedded.stop()
    assert get_user_model().objects.filter(username="written").exists()
    assert violations(committed) == []
    assert sum(TaskStat.objects.values_list("completed", flat=True)) == 8


def test_it_is_a_worker_like_any_other_while_it_lives(start):
    worker = start(threads=3)
    until(lambda: Worker.objects.filter(pk=worker.id, stopped_at=None).exists())
    row = Worker.objects.get(pk=worker.id)
    assert (row.slots, row.threads, row.listening) == (3, 3, False)
    assert start() is worker, "one for each process"
    taskqueue.ask_to_stop(worker.id, by="ops")
    worker.heartbeat.beating.soon()
    until(lambda: Worker.objects.get(pk=worker.id).stopped_at is not None)


def test_it_keeps_the_queue_in_order(start):
    """It recovers lost leases, cancels what expired and fires schedules, as a supervisor does."""
    lost = Task.objects.enqueue(note, [1], max_attempts=2)
    taskqueue.claim("gone/1", lease=0.01)
    expired = Task.objects.enqueue(note, [2], expires=timedelta(seconds=0.01), queue="emails")
    start(queues=("default",))
    until(lambda: statuses([lost]) == {"SUCCESS"} and statuses([expired]) == {"CANCELLED"})
    assert TaskEvent.objects.filter(task=lost.pk, kind="task.lease_lost").exists()


def test_at_the_end_it_waits_and_then_hands_back_what_still_runs(start, committed):
    made = [Task.objects.enqueue(hold)]
    start(grace=0.3)
    until(lambda: statuses(made) == {"RUNNING"} and seen)
    embedded.stop()
    row = Task.objects.get(pk=made[0].pk)
    assert (row.status, row.refunds) == ("PENDING", 1)
    release.set()
    assert violations(committed) == []


def test_a_lease_is_not_renewed_past_the_timeout(start, settings):
    settings.TASKS = {
        **settings.TASKS,
        "default": {
            **settings.TASKS["default"],
            "OPTIONS": {**settings.TASKS["default"].get("OPTIONS", {}), "LEASE": 1.0},
        },
    }
    made = [Task.objects.enqueue(hold)]
    worker = start(threads=1)
    until(lambda: statuses(made) == {"RUNNING"} and seen)
    until(lambda: TaskEvent.objects.filter(task=made[0].pk, kind="task.lease_lost").exists())
    release.set()
    until(lambda: statuses(made) == {"SUCCESS"})
    assert Task.objects.get(pk=made[0].pk).attempts == 2, "what the first returned was refused"
    assert worker.keeper.is_alive()


def test_a_step_that_fails_keeps_none_of_the_others(start, monkeypatch):
    worker = start()
    monkeypatch.setattr(worker, "maintain", lambda: 1 / 0)
    made = [Task.objects.enqueue(note, [1])]
    until(lambda: statuses(made) == {"SUCCESS"})


def test_threads_that_start_it_at_once_start_one(start, monkeypatch):
    together, made = threading.Barrier(4), []
    monkeypatch.setattr(embedded, "new_worker_id", lambda name: (threading.Event().wait(0.05), f"{name}-1")[1])

    def begin() -> None:
        together.wait()
        made.append(start())

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(set(map(id, made))) == 1


@pytest.mark.parametrize("given", [{"threads": 0}, {"poll": 0}])
def test_a_worker_that_could_run_nothing_does_not_start(start, given):
    with pytest.raises(InvalidOptions, match="one thread or more"):
        start(**given)


SITE = """
import sys, time
import django
from django.conf import settings

settings.configure(
    SECRET_KEY="x", USE_TZ=True,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_tasks_retry"],
    DATABASES={"default": {
        "ENGINE": "django.db.backends.sqlite3", "NAME": sys.argv[1], "OPTIONS": {"transaction_mode": "IMMEDIATE"},
    }},
    TASKS={"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend", "QUEUES": [], "OPTIONS": {
        "TASK_MODULES": ["tests.worker.test_embedded"],
    }}},
)
django.setup()
from django.core.management import call_command

call_command("migrate", verbosity=0)
from django_tasks_retry import embedded
from django_tasks_retry.models import Task
from tests.worker.test_embedded import hold

embedded.start(poll=0.05, grace=0.2)
hold.enqueue()
while not Task.objects.running().exists():
    time.sleep(0.01)
"""


@pytest.mark.long
def test_a_process_that_ends_hands_back_what_runs(tmp_path):
    subprocess.run([sys.executable, "-c", SITE, str(tmp_path / "db")], check=True, timeout=60)
    with sqlite3.connect(tmp_path / "db") as connection:
        [row] = connection.execute("SELECT status, attempts, refunds FROM django_tasks_retry_task")
        [stopped] = connection.execute("SELECT stopped_at IS NOT NULL FROM django_tasks_retry_worker")
    assert (row, stopped) == (("PENDING", 1, 1), (1,))
