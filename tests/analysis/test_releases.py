"""The deploy guard: what fails significantly more under a new release is paused once, and nothing else."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.analysis.releases import guard_release, suspects
from django_tasks_retry.models import FlowLimit, OperatorEvent, Task
from django_tasks_retry.worker.shared.database import DatabaseCaller
from django_tasks_retry.worker.supervisor.maintenance.problems import DeployGuard
from tests import tasks

NOOP = "tests.tasks.noop"


@pytest.fixture
def release(database, travel):
    def begin(name: str, *, good: int = 0, bad: int = 0, func=tasks.noop, args=((),), attempts: int = 1) -> None:
        worker = f"w-{name}"
        facts = {"host": "h", "pid": 1, "version": "1", "queues": ["*"], "exclude": [], "processes": 1, "slots": 4}
        taskqueue.register_worker(worker, "default", tasks=[NOOP], release=name, **facts)
        calls = [{"func": func, "args": args[n % len(args)], "max_attempts": attempts} for n in range(good + bad)]
        Task.objects.enqueue_many(calls)
        for n in range(good + bad):
            [lease] = taskqueue.claim(f"{worker}/1")
            if n < bad:
                taskqueue.fail_task(lease, RuntimeError("new"))
            else:
                taskqueue.complete_task(lease, None)
        travel(60)

    return begin


def found(using: str) -> list[tuple[str, str]]:
    return [(each.func_path, each.reason) for each in suspects("default", using)]


def test_a_function_that_fails_more_is_paused_once_with_the_evidence(database, release, configure):
    configure(DEPLOY_GUARD="pause", RELEASE="v2")
    release("v1", good=30)
    release("v2", good=10, bad=15)
    assert len(guard_release("default")) == 1
    paused = FlowLimit.objects.get(kind="function", name=NOOP)
    assert (paused.paused_by, paused.reason) == ("deploy guard", "Release v2: 15 of 25 tasks failed, under v1 0 of 30")
    taskqueue.resume(NOOP, kind="function", by="ann")
    assert guard_release("default") == []
    paused.refresh_from_db()
    assert paused.paused_at is None


def test_it_only_reports_if_it_is_asked_to(database, release, configure):
    configure(DEPLOY_GUARD="report", RELEASE="v2")
    release("v1", good=30)
    release("v2", good=10, bad=15)
    guard_release("default")
    event = OperatorEvent.objects.get(kind="release.suspected")
    assert (event.subject, event.actor) == (f"function:{NOOP}", "deploy guard")
    assert not FlowLimit.objects.filter(paused_at__isnull=False).exists()
    assert guard_release("default") == []


@pytest.mark.parametrize(
    ("before", "after", "is_suspect"),
    [
        ({"good": 30}, {"good": 10, "bad": 15}, True),
        ({"good": 15, "bad": 15}, {"good": 10, "bad": 15}, False),
        ({"good": 30}, {"good": 2, "bad": 15}, False),
        ({"good": 10}, {"good": 10, "bad": 15}, False),
        ({"good": 30}, {"good": 21, "bad": 4}, False),
    ],
)
def test_counts_must_be_large_enough_and_the_difference_significant(database, release, before, after, is_suspect):
    release("v1", **before)
    release("v2", **after)
    assert bool(found(database)) == is_suspect


def test_retries_of_one_task_count_once(database, release):
    release("v1", good=30)
    release("v2", good=19)
    Task.objects.enqueue(tasks.noop, max_attempts=20, backoff=[0])
    for _attempt in range(20):
        [lease] = taskqueue.claim("w-v2/1")
        taskqueue.fail_task(lease, RuntimeError("again"))
    assert found(database) == []


@pytest.mark.parametrize(("bad_in", "is_suspect"), [([[7]], False), ([[7], [8]], True)])
def test_one_tenant_does_not_stop_all(database, release, bad_in, is_suspect):
    release("v1", good=60, func=tasks.post, args=([7, 1], [8, 1]))
    release("v2", good=40, func=tasks.post, args=([8, 1],))
    release("v2", bad=60, func=tasks.post, args=tuple([*each, 1] for each in bad_in))
    assert bool(found(database)) == is_suspect


def test_an_old_release_is_not_watched_any_more(database, release, travel):
    release("v1", good=30)
    release("v2", good=10, bad=15)
    travel(2 * 86400)
    assert found(database) == []


def test_by_default_no_worker_looks(database, configure):
    guard = DeployGuard("default", DatabaseCaller(database, 60.0))
    guard.is_elected = True
    assert not guard.is_due()
    configure(DEPLOY_GUARD="report")
    assert guard.is_due()
