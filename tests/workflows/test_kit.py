"""The test kit: whole graphs in an ordinary test, killed at every statement."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import Group

from django_tasks_retry.compat import task
from django_tasks_retry.models import Task
from tests.workflows import tasks


@task
def add_group(name: str) -> None:
    Group.objects.get_or_create(name=name)


@task(takes_context=True)
def careful(context: Any) -> None:
    context.step("stock", tasks.write, "stock", atomic=True)
    context.call("part", add_group, "a")


@task(takes_context=True)
def careless(context: Any) -> None:
    context.step("write", tasks.write, f"group {Group.objects.count()}")
    context.sleep("nap", 60)


def test_a_careful_workflow_comes_to_the_same_wherever_it_is_killed(harness):
    report = harness.check_idempotent(careful, observe=Group.objects.count)
    assert report.idempotent, report
    assert report.undisturbed == 2
    assert len(report.crashes) > 10
    assert not Task.objects.exists(), "nothing of it stays"


def test_a_careless_step_is_named_with_what_happened_twice(harness):
    report = harness.check_idempotent(careless, observe=lambda: {"groups": Group.objects.count()})
    assert not report.idempotent
    assert "groups 1 → 2" in str(report)


def test_the_crash_kit_knows_tasks_that_wait(harness):
    report = harness.crash(careful)
    assert report.idempotent, report
    assert report.history == ["lost", "lost", "released"]


def test_a_whole_graph_runs_in_an_ordinary_test(harness):
    task = Task.objects.enqueue(tasks.tree, [2, 3])
    harness.run_until_idle()
    assert Task.objects.get(pk=task.pk).outcome.result == 9
