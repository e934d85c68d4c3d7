from __future__ import annotations

from datetime import timedelta

from django_tasks_retry.models import Task

from . import tasks
from .harness import status_of, wait_for


def test_five_occurrences_without_drift(start, effects):
    first = Task.objects.enqueue(tasks.canary, interval=0.4)
    start()
    effects.wait_for("canary", times=5)
    wait_for(lambda: Task.objects.successful().count() >= 5, "five occurrences")
    occurrences = list(Task.objects.successful().order_by("slot")[:5])
    steps = [(task.slot - first.slot) / timedelta(seconds=0.4) for task in occurrences]
    assert all(abs(step - round(step)) < 1e-6 for step in steps), steps
    assert len(set(steps)) == 5
    assert {task.run_id for task in occurrences} == {first.run_id}


def test_a_failed_occurrence_ends_the_series(start, effects):
    Task.objects.enqueue(tasks.fail_fifth, interval=0.2)
    start()
    wait_for(lambda: Task.objects.failed().exists(), "the failure of the fifth")
    canary = Task.objects.enqueue(tasks.canary)
    wait_for(lambda: status_of(canary) == "SUCCESS", "a canary")
    assert sorted(Task.objects.exclude(pk=canary.pk).values_list("status", flat=True)) == ["FAILED"] + ["SUCCESS"] * 4
