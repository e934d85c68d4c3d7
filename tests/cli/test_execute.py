"""One stored task in the foreground: by the same claim, under the same lease, with the same record as in a worker."""

from __future__ import annotations

import pdb
import time
from datetime import timedelta

import pytest

from django_tasks_retry import registry, taskqueue
from django_tasks_retry.compat import task
from django_tasks_retry.models import Task, TaskEvent, TaskStat
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.cli.conftest import tasks_command


@task
async def wait_a_moment(n: int) -> int:
    return n + 1


@task
def outlast_the_lease() -> None:
    time.sleep(3.5)


@task
def interrupted() -> None:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def _registered():
    registry.discover()
    for each in (wait_a_moment, outlast_the_lease, interrupted):
        registry.register(each)


def kinds(stored: Task) -> list[str]:
    return [event.kind for event in TaskEvent.objects.filter(task=stored).order_by("id")]


@pytest.mark.parametrize(("function", "args"), [(tasks.add, [1, 2]), (wait_a_moment, [2])])
def test_it_is_claimed_run_and_recorded(function, args, cli):
    stored = Task.objects.enqueue(function, args)
    answer = cli("execute", stored.pk, "--json")
    assert (answer.code, answer.record["outcome"]) == (0, "success")
    assert kinds(stored) == ["task.running", "task.completed"]
    assert Task.objects.get(pk=stored.pk).outcome.result == 3
    assert TaskStat.objects.get().completed == 1


def test_a_failure_is_shown_and_tried_again_by_the_policy(cli):
    stored = Task.objects.enqueue(tasks.explode, ["no luck"])
    answer = cli("execute", stored.pk)
    assert answer.code == 1
    assert "ValueError: no luck" in answer.err
    assert answer.out.startswith("failed, to be tried again")
    assert kinds(stored) == ["task.running", "task.failed", "task.requeued"]


def test_the_debugger_opens_before_the_failure_is_recorded(cli, monkeypatch):
    stored, seen = Task.objects.enqueue(tasks.explode), []
    monkeypatch.setattr(pdb, "post_mortem", lambda trace: seen.append((trace.tb_next is not None, kinds(stored))))
    assert cli("execute", stored.pk, "--pdb").code == 1
    assert seen == [(True, ["task.running"])]


def test_ctrl_c_gives_the_task_back(cli):
    stored = Task.objects.enqueue(interrupted)
    assert cli("execute", stored.pk).code == 130
    assert kinds(stored) == ["task.running", "task.released"]
    assert Task.objects.get(pk=stored.pk).refunds == 1


def test_one_that_is_not_due_is_made_due_first(cli):
    stored = Task.objects.enqueue(tasks.noop, eta=timedelta(hours=1))
    assert cli("execute", stored.pk).code == 0
    assert kinds(stored) == ["task.rescheduled", "task.running", "task.completed"]


def test_what_cannot_run_is_refused_with_the_reason(cli):
    finished, paused, running = Task.objects.enqueue_many(
        [(tasks.noop,), {"func": tasks.noop, "queue": "emails"}, {"func": tasks.noop, "queue": "bulk"}]
    )
    finished.cancel()
    taskqueue.pause("emails", by="olga", reason="INC-204")
    taskqueue.claim("w", ["bulk"])
    assert f"tasks retry {finished.pk}" in cli("execute", finished.pk).err
    assert "was paused by olga" in cli("execute", paused.pk).err
    assert "w runs it already" in cli("execute", running.pk).err
    assert {cli("execute", each.pk).code for each in (finished, paused, running)} == {5}


def test_a_claim_of_one_task_takes_no_other(database):
    """Somebody was faster: what stands behind it in line is given back at once."""
    first, second = Task.objects.enqueue_many([(tasks.noop,)] * 2)
    taskqueue.claim("w", limit=1)
    assert taskqueue.claim_task(first, "shell") is None
    assert Task.objects.get(pk=second.pk).status == Status.PENDING
    lease = taskqueue.claim_task(second, "shell")
    assert (lease.id, lease.locked_by) == (second.pk, "shell")


@pytest.mark.fault("foreground_task_outlasts_its_lease")
def test_its_lease_is_kept_for_as_long_as_it_runs(committed, configure):
    configure(LEASE=3)  # which a busy machine renews in time
    stored = Task.objects.enqueue(outlast_the_lease)
    assert tasks_command("execute", stored.pk).code == 0
    assert Task.objects.get(pk=stored.pk).status == Status.SUCCESS
