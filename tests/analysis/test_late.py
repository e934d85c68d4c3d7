"""Why late: each instant of a task's wait has one cause, and the causes add up to the wait exactly."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connections
from django.db.models import F

from django_tasks_retry import clock, taskqueue
from django_tasks_retry.analysis import late
from django_tasks_retry.analysis.backdrop import Spans
from django_tasks_retry.display.scope import Scope
from django_tasks_retry.errors import Snooze
from django_tasks_retry.models import Task, TaskEvent, Worker
from django_tasks_retry.rules.transitions import EventKind
from tests import tasks
from tests.admin.conftest import _shop, operator  # noqa: F401
from tests.cli.conftest import tasks_command
from tests.steps import claim_one

NOOP, SYNC, WORKER = "tests.tasks.noop", "tests.tasks.sync", "w-1"


@pytest.fixture
def serve(database) -> Callable[..., None]:
    def register(name: str = WORKER, known=(NOOP, SYNC), **facts) -> None:
        columns = {"host": "h", "pid": 1, "version": "1", "queues": ["*"], "exclude": [], "processes": 1, "slots": 4}
        taskqueue.register_worker(name, "default", tasks=list(known), **{**columns, **facts})

    return register


def alive(using: str) -> None:
    Worker.objects.using(using).filter(stopped_at=None).update(heartbeat_at=clock.Now())


def split(task: Task, using: str) -> late.Late:
    return late.why_late(Task.objects.using(using).get(pk=task.pk), Scope("default", using, clock.now(using)))


def causes(task: Task, using: str) -> dict[str, int]:
    """Cause and subject → seconds, without what took less than one."""
    parts = {
        f"{part.cause} {part.subject}".strip(): round(part.time.total_seconds()) for part in split(task, using).parts
    }
    return {name: seconds for name, seconds in parts.items() if seconds}


def run(task: Task) -> None:
    lease = claim_one(f"{WORKER}/1")
    assert lease.id == task.pk
    taskqueue.complete_task(lease, None)


def test_before_its_eta_it_is_not_due_and_then_waits_for_others(database, serve, travel):
    serve()
    task = Task.objects.enqueue(tasks.noop, eta=timedelta(seconds=100))
    travel(130)
    alive(database)
    run(task)
    assert causes(task, database) == {"not_due": 100, "behind default": 30}


def test_a_failed_attempt_is_followed_by_backoff(database, serve, travel):
    serve()
    task = Task.objects.enqueue(tasks.noop, eta=timedelta(seconds=50), backoff=[200])
    travel(60)
    taskqueue.fail_task(claim_one(f"{WORKER}/1"), RuntimeError("once"))
    travel(205)
    alive(database)
    run(task)
    assert causes(task, database) == {"not_due": 50, "behind default": 15, "backoff": 200}


def test_a_pause_is_charged_to_its_author(database, serve, travel):
    serve()
    task = Task.objects.enqueue(tasks.noop)
    travel(10)
    taskqueue.pause("default", by="ann", reason="INC-1")
    travel(60)
    taskqueue.resume("default", by="bob")
    travel(20)
    alive(database)
    run(task)
    assert causes(task, database) == {"paused queue:default, ann": 60, "behind default": 30}


def test_a_full_lane_is_named(database, serve, travel):
    serve()
    first, second, third = (Task.objects.enqueue(tasks.sync, [7, n]) for n in range(3))
    leases = taskqueue.claim(f"{WORKER}/1", limit=3)
    assert [lease.id for lease in leases] == [first.pk, second.pk]
    travel(40)
    taskqueue.renew(leases)
    travel(30)
    alive(database)
    taskqueue.complete_task(leases[0], None)
    travel(5)
    run(third)
    assert causes(third, database) == {"limited tenant-7": 70, "behind default": 5}


def test_a_rate_is_named(database, serve, travel):
    serve(known=["tests.tasks.call_api"])
    *first, last = (Task.objects.enqueue(tasks.call_api, ["x"]) for _n in range(6))
    for lease in taskqueue.claim(f"{WORKER}/1", limit=6):
        taskqueue.complete_task(lease, None)
    travel(65)
    alive(database)
    run(last)
    assert causes(last, database) == {"rate api-x": 60, "behind default": 5}
    assert len(first) == 5


def test_a_time_without_a_worker_is_told_by_what_ended_the_one_before(database, serve, travel):
    task = Task.objects.enqueue(tasks.noop)
    travel(30)
    serve("w-0")
    travel(10)
    taskqueue.deregister_worker("w-0", "default")
    travel(20)
    serve("w-9", known=["tests.tasks.other"])
    serve()
    run(task)
    assert causes(task, database) == {"no_worker default": 30, "behind default": 10, "deploying w-0": 20}


def test_a_lost_lease_is_charged_to_the_worker_that_died(database, serve, travel):
    serve()
    task = Task.objects.enqueue(tasks.noop)
    claim_one(f"{WORKER}/1")
    travel(10)
    alive(database)
    travel(90)
    taskqueue.recover()
    serve("w-2")
    taskqueue.complete_task(claim_one("w-2/1"), None)
    assert causes(task, database) == {"worker_died w-1": 90}
    assert round(split(task, database).worked.total_seconds()) == 10


def test_a_lease_that_its_living_worker_could_not_renew_is_the_databases(database, serve, travel):
    serve()
    task = Task.objects.enqueue(tasks.noop)
    claim_one(f"{WORKER}/1")
    travel(100)
    taskqueue.recover()
    alive(database)
    travel(1)
    run(task)
    assert causes(task, database) == {f"database_away {WORKER}": 60, "behind default": 1}


def test_what_a_task_asked_for_is_no_ones_fault(database, serve, travel):
    serve()
    task = Task.objects.enqueue(tasks.noop)
    taskqueue.fail_task(claim_one(f"{WORKER}/1"), Snooze(45))
    travel(50)
    alive(database)
    run(task)
    assert causes(task, database) == {"asked": 45, "behind default": 5}


def test_run_now_ends_the_time_in_which_it_was_not_due(database, serve, travel):
    serve()
    task = Task.objects.enqueue(tasks.noop, eta=timedelta(seconds=500))
    travel(20)
    alive(database)
    taskqueue.reschedule([task.pk], eta=clock.now(database), by="ann", reason="now")
    travel(7)
    alive(database)
    run(task)
    assert causes(task, database) == {"not_due": 20, "behind default": 7}


def test_times_before_the_memory_of_workers_are_not_guessed(database, serve, travel):
    task = Task.objects.enqueue(tasks.noop)
    travel(86400 * 2)
    serve()
    assert causes(task, database) == {"unknown default": 86400, "no_worker default": 86400}


@pytest.mark.parametrize("seed", range(6))
def test_the_parts_add_up_for_every_task_of_a_random_history(database, serve, travel, seed):
    """The wait is the sum of its parts, and all of the time in which no attempt ran."""
    chance = random.Random(seed)
    held: list[taskqueue.Lease] = []
    for turn in range(120):
        random_step(chance, held, serve, turn)
        travel(chance.choice([0, 0.2, 1, 7, 30, 200]))
    recovered = set(TaskEvent.objects.filter(kind=EventKind.LEASE_LOST).values_list("task_id", flat=True))
    scope = Scope("default", database, clock.now(database))
    every = list(Task.objects.all())
    assert len(every) > 20
    for task, found in zip(every, late.split_waits(every, scope), strict=True):
        total = (task.finished_at or scope.now) - task.created_at
        assert sum((part.time for part in found.parts), timedelta()) == found.wait
        assert found.wait + found.worked == total
        assert all(part.time > timedelta() and part.cause in late.CAUSES for part in found.parts)
        if task.pk not in recovered:
            assert found.worked == time_in_attempts(task, scope)


def random_step(chance: random.Random, held: list[taskqueue.Lease], serve: Callable[..., None], turn: int) -> None:
    match chance.randrange(10):
        case 0 | 1 | 2:
            Task.objects.enqueue(
                *chance.choice([(tasks.noop, []), (tasks.sync, [1, 2])]),
                eta=timedelta(seconds=chance.choice([0, 0, 40])),
            )
        case 3 | 4:
            held += taskqueue.claim(f"w-{turn}/1", limit=2)
        case 5 | 6 if held:
            end = chance.choice([lambda lease: taskqueue.complete_task(lease, None), fail, release])
            lease = held.pop()
            if Task.objects.filter(pk=lease.id, attempts=lease.attempts, lock_expires_at__gt=clock.Now()).exists():
                end(lease)
        case 7:
            chance.choice([taskqueue.pause, taskqueue.resume])("default", by="ann", reason="x")
        case 8:
            serve(f"w-{turn}")
        case _:
            taskqueue.recover()


def fail(lease: taskqueue.Lease) -> None:
    taskqueue.fail_task(lease, RuntimeError("by chance"))


def release(lease: taskqueue.Lease) -> None:
    taskqueue.release_task(lease, "by chance")


def time_in_attempts(task: Task, scope: Scope) -> timedelta:
    total, began = timedelta(), None
    for event in TaskEvent.objects.filter(task=task).order_by("id"):
        if event.kind == EventKind.RUNNING:
            began = event.ts
        elif began is not None:
            total, began = total + (event.ts - began), None
    return total if began is None else total + (scope.now - began)


def test_workers_that_lived_side_by_side_do_not_multiply_the_time(database, serve, travel):
    for n in range(40):
        serve(f"w-{n}")
    travel(60)
    task = Task.objects.enqueue(tasks.noop)
    travel(30)
    alive(database)
    assert causes(task, database) == {"behind default": 30}


def test_a_worker_that_ended_before_it_began_hides_no_other(database, serve, travel):
    for name in ("w-1", "w-2", "w-3"):
        serve(name)
    travel(60)
    Worker.objects.using(database).filter(pk="w-2").update(started_at=clock.Now(), stopped_at=F("started_at"))
    task = Task.objects.enqueue(tasks.noop)
    travel(30)
    alive(database)
    assert causes(task, database) == {"behind default": 30}


@pytest.mark.parametrize("seed", range(20))
def test_time_is_taken_once(seed):
    chance, zero = random.Random(seed), datetime(2026, 1, 1, tzinfo=UTC)
    free, minutes = [(zero, zero + timedelta(minutes=60))], set(range(60))
    for _ in range(40):
        start, end = chance.randrange(-5, 65), chance.randrange(-5, 65)
        taken = late.cut(free, zero + timedelta(minutes=start), zero + timedelta(minutes=end))
        assert minutes_of(taken, zero) == minutes & set(range(start, end))
        minutes -= set(range(start, end))
        assert minutes_of(free, zero) == minutes
        assert free == sorted(free)


def minutes_of(spans: Spans, zero: datetime) -> set[int]:
    return {n for n in range(60) for start, end in spans if start <= zero + timedelta(minutes=n) < end}


def test_the_shell_answers_for_one_task_and_for_functions(database, serve, travel):
    serve()
    task = Task.objects.enqueue(tasks.noop, eta=timedelta(seconds=100))
    travel(130)
    alive(database)
    run(task)
    answer = tasks_command("late", task.pk, "--json").record
    assert [part["cause"] for part in answer["parts"]][:2] == ["not_due", "behind"]
    assert sum(part["seconds"] for part in answer["parts"]) == pytest.approx(answer["wait_seconds"])
    assert "1 min 40 s  not due yet" in tasks_command("late", task.pk).out
    [row] = tasks_command("late", "--json").records
    assert (row["func_path"], row["tasks"], round(row["median"]), next(iter(row["causes"]))) == (
        NOOP,
        1,
        130,
        "not_due",
    )
    assert tasks_command("late", "--queue", "nowhere").code == 4


def test_many_tasks_take_as_many_queries_as_one(database, serve, travel, django_assert_max_num_queries):
    serve()
    Task.objects.enqueue_many([(tasks.noop,)] * 30)
    for lease in taskqueue.claim(f"{WORKER}/1", limit=30):
        taskqueue.complete_task(lease, None)
    with django_assert_max_num_queries(12, connection=connections[database]):
        [row] = late.overall(Scope("default", database, clock.now(database)), timedelta(days=1))
    assert row.tasks == 30
    assert Task.objects.filter(attempts=F("refunds") + 1).count() == 30


def test_the_page_of_a_task_answers_when_it_is_asked(database, serve, travel, operator):  # noqa: F811
    serve()
    task = Task.objects.enqueue(tasks.noop, eta=timedelta(seconds=100))
    page = f"/admin/django_tasks_retry/task/{task.pk}/change/"
    assert "?late=1" in operator.get(page).content.decode()
    travel(130)
    answer = operator.get(f"{page}?late=1").content.decode()
    assert "1 min 40 s" in answer
    assert "not due yet" in answer
