"""Objectives: attempts that start in time, the budget of those that need not, and what ate it."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db.models import F

from django_tasks_retry import clock, metrics, taskqueue
from django_tasks_retry.analysis import alerts
from django_tasks_retry.analysis.objectives import what_ate
from django_tasks_retry.display.scope import Scope, current_scope, read_standing
from django_tasks_retry.errors import InvalidOptions, InvalidPolicy
from django_tasks_retry.models import OperatorEvent, Task, TaskStat, Worker
from django_tasks_retry.rules.policy import attach, make_policy, policy_of, retry
from django_tasks_retry.taskqueue import Stat, add_stats
from django_tasks_retry.taskqueue.statistics import read_budgets
from django_tasks_retry.taskqueue.statistics.objectives import Budget, Objective, count_within
from tests import tasks
from tests.admin.conftest import _shop, operator  # noqa: F401
from tests.cli.conftest import tasks_command
from tests.metrics.parser import parse
from tests.steps import claim_one

NOOP = "tests.tasks.noop"


@pytest.fixture
def emails(settings) -> str:
    """The queue of that name should start its tasks within five minutes."""
    entry = {**settings.TASKS["default"], "OPTIONS": {"OBJECTIVES": {"emails": timedelta(minutes=5)}}}
    settings.TASKS = {"default": entry}
    return "queue:emails"


def count(*waits: float, queue: str = "emails", func_path: str = NOOP) -> None:
    stat = Stat(queue, func_path)
    for waited in waits:
        stat.note("completed", 0.01, waited)
    add_stats([stat])


def budget(label: str = "queue:emails") -> Budget:
    return next(each for each in read_budgets("default") if each.objective.label == label)


def serve() -> None:
    facts = {"host": "h", "pid": 1, "version": "1", "queues": ["*"], "exclude": [], "processes": 1, "slots": 4}
    taskqueue.register_worker("w-1", "default", tasks=[NOOP], **facts)


def test_nobody_pays_without_objectives(database, django_assert_num_queries):
    with django_assert_num_queries(0, using=database):
        assert read_budgets("default") == []


def test_attempts_beyond_the_objective_use_the_budget(database, emails):
    count(*[1.0] * 97, 299.0, 301.0, 4000.0)
    count(9999.0, queue="bulk")
    found = budget()
    assert found.attempts["7d"] == 100
    assert found.in_time("1h") == pytest.approx(0.98)
    assert found.burn("1h") == pytest.approx(2.0)
    assert found.left == pytest.approx(-1.0)
    assert not found.is_burning


def test_windows_count_their_own_minutes(database, emails):
    count(1000.0)
    TaskStat.objects.update(minute=F("minute") - timedelta(hours=3))
    count(1.0)
    found = budget()
    assert [found.attempts[window] for window in ("5m", "1h", "6h", "7d")] == [1, 1, 2, 2]
    assert [found.late[window] for window in ("5m", "1h", "6h", "7d")] == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("seconds", "within"), [(0.01, 1), (300.0, 7), (3600.0, 8), (7200.0, 9), (165.0, 6.5), (0.005, 0.5)]
)
def test_a_bound_is_counted_exactly_and_others_are_estimated(seconds, within):
    assert count_within(seconds, [1] * 9) == pytest.approx(within)


def test_a_task_that_waits_too_long_counts_before_it_starts(database, emails, travel):
    Task.objects.enqueue_many([{"func": tasks.noop, "queue": "emails"}] * 3)
    Task.objects.enqueue(tasks.noop, queue="emails", lane="a")
    Task.objects.enqueue(tasks.noop, queue="bulk")
    Task.objects.enqueue(tasks.noop, queue="emails", eta=timedelta(hours=1))
    travel(299)
    assert budget().waiting == 0
    travel(2)
    assert (budget().waiting, budget().in_time("5m")) == (4, 0.0)


def test_a_function_has_an_objective_by_its_policy(database, monkeypatch, travel):
    monkeypatch.setattr(tasks.noop.func, "retry_policy", make_policy(objective=timedelta(seconds=30)), raising=False)
    count(29.0, queue="default")
    count(31.0, queue="bulk")
    count(31.0, func_path="tests.tasks.sync")
    found = budget(f"function:{NOOP}")
    assert (found.attempts["1h"], found.late["1h"]) == (2, 1)


def test_the_objective_stands_beside_the_other_words_of_a_policy():
    @retry(objective=timedelta(minutes=1), max_attempts=3)
    def function() -> None: ...

    assert (policy_of(function).objective, policy_of(function).max_attempts) == (60.0, 3)
    with pytest.raises(InvalidPolicy, match=r"objective=0\.0: give seconds"):
        attach(make_policy(objective=0.0), function)


@pytest.mark.parametrize("wrong", [{"emails": 0}, {"emails": "soon"}, ["emails"]])
def test_settings_that_are_no_objectives_are_refused(settings, wrong):
    settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": {"OBJECTIVES": wrong}}}
    with pytest.raises(InvalidOptions, match="OBJECTIVES"):
        read_budgets("default")


def test_a_budget_that_burns_is_told_everywhere(database, emails, operator):  # noqa: F811
    count(*[1.0] * 20, *[400.0] * 5)
    assert tasks_command("objectives").code == 1
    [record] = tasks_command("objectives", "--json").records
    assert (record["objective"], record["seconds"], record["attempts"], record["is_burning"]) == (emails, 300, 25, True)
    text = "queue:emails: 5 of 25 attempts started later than 5 min, within an hour."
    assert text in operator.get("/admin/django_tasks_retry/overview/").content.decode()
    assert text in tasks_command("doctor").out
    assert [each.kind for each in alerts.causes(read_standing(current_scope()))].count("objective") == 1
    burn = parse(metrics.scrape())["django_tasks_objective_burn_rate"]
    assert [burn.value(objective=emails, window=each) for each in ("5m", "1h", "6h")] == pytest.approx([20.0] * 3)
    page = operator.get("/admin/django_tasks_retry/taskfunction/").content.decode()
    assert "80.00%" in page
    assert f"?objective={emails.replace(':', '%3A')}" in page


def test_few_late_attempts_wake_nobody(database, emails):
    count(*[400.0] * 4)
    assert not budget().is_burning
    assert tasks_command("objectives").code == 0


def test_what_ate_the_budget_is_named_by_its_causes(database, emails, operator, travel):  # noqa: F811
    serve()
    waits = [Task.objects.enqueue(tasks.noop, queue="emails") for _ in range(2)]
    taskqueue.pause("emails", by="ann", reason="INC-1")
    travel(600)
    taskqueue.resume("emails", by="ann")
    travel(100)
    Worker.objects.update(heartbeat_at=clock.Now())
    for task in waits:
        [lease] = taskqueue.claim("w-1/1", ["emails"])
        assert lease.id == task.pk
        taskqueue.complete_task(lease, None)
        count(lease.wait_seconds)
    before = OperatorEvent.objects.count()
    pause, behind = what_ate(Objective("queue", "emails", 300.0), Scope("default", database, clock.now(database)))
    assert (pause.cause, pause.subject, behind.cause) == ("paused", "queue:emails, ann", "behind")
    assert pause.share == pytest.approx(6 / 7, abs=0.01)
    shown = tasks_command("objectives", "emails").out
    assert "85.7 %  paused by: queue:emails, ann" in shown
    page = operator.get("/admin/django_tasks_retry/taskfunction/?objective=queue:emails").content.decode()
    assert "What ate the budget of queue:emails this week" in page
    assert "paused by: queue:emails, ann" in page
    assert OperatorEvent.objects.count() == before


def test_a_function_shows_what_its_tasks_waited_for(database, operator, travel):  # noqa: F811
    serve()
    Task.objects.enqueue(tasks.noop, eta=timedelta(seconds=60))
    travel(60)
    taskqueue.complete_task(claim_one("w-1/1"), None)
    page = operator.get(f"/admin/django_tasks_retry/taskfunction/?function={NOOP}&late=1").content.decode()
    assert "Wait in queue default: median 1 min" in page
    assert "not due yet" in page


def test_an_unknown_objective_is_no_answer(database, emails):
    answer = tasks_command("objectives", "nothing")
    assert (answer.code, answer.err.strip()) == (4, "0 objectives end with “nothing”.")
