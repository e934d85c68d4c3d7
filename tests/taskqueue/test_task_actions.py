"""People and code act on many tasks; rows in the wrong status are skipped and counted."""

from __future__ import annotations

from datetime import datetime, timedelta
from uuid import UUID

import pytest
from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import IllegalMove, InvalidCall, UnknownQueue
from django_tasks_retry.models import Task, TaskEvent
from django_tasks_retry.rules.status import FINISHED, Status
from tests import tasks
from tests.steps import begin, enqueue, everything, kinds, now_of, task_in


def one_of_each():
    """A task in each status; the pending one last, so that it is not claimed."""
    made = {status: task_in(status)[0] for status in reversed(Status)}
    return {status: made[status] for status in Status}


def ids(made):
    return [task.pk for task in made.values()]


def test_cancel_takes_the_unfinished_and_counts_the_rest(database):
    made = one_of_each()
    before = {status: everything(made[status]) for status in FINISHED}
    changed = taskqueue.cancel([*ids(made), UUID(int=5)], by="tests", reason="enough")
    assert (set(changed.done), changed.skipped) == ({made[Status.PENDING].pk, made[Status.RUNNING].pk}, 4)
    for status in (Status.PENDING, Status.RUNNING):
        task = now_of(made[status])
        assert (task.status, task.locked_by) == ("CANCELLED", None)
        assert task.outcome.error == {"message": "enough", "code": "CANCELLED", "actor": "tests"}
        assert (task.events.last().actor, task.events.last().data) == ("tests", {"reason": "enough"})
    for status in FINISHED:
        assert everything(made[status]) == before[status]


def test_retry_takes_the_finished_and_leaves_them_as_they_were(database):
    made = one_of_each()
    before = {status: everything(made[status]) for status in Status}
    fresh = taskqueue.retry(ids(made), by="tests", reason="again")
    assert {task.retry_of_id for task in fresh} == {made[status].pk for status in FINISHED}
    for task in fresh:
        old, new = Task.objects.get(pk=task.retry_of_id), now_of(task)
        assert (new.status, new.attempts, new.refunds, new.run_id) == ("PENDING", 0, 0, old.run_id)
        assert (new.last_error, new.started_at, new.finished_at) == (None, None, None)
        assert kinds(new) == ["task.retried"]
        assert new.events.get().data == {"retry_of": str(old.pk), "reason": "again"}
    for status in Status:
        assert everything(made[status]) == before[status]


def test_a_retry_is_the_same_call_by_the_same_policy(database):
    task = enqueue(
        tasks.add, 1, kwargs={"b": 2}, queue="bulk", priority=4, max_attempts=2, backoff=[9], timeout=8,
        unique_key="k", metadata={"x": 1},
    )  # fmt: skip
    task.cancel()
    again = now_of(task.retry())
    for name in ("func_path", "args", "kwargs", "queue", "priority", "backend", "max_attempts", "backoff", "timeout",
                 "interval", "run_id", "unique_key", "metadata"):  # fmt: skip
        assert getattr(again, name) == getattr(task, name), name
    assert again.eta == again.created_at


@pytest.mark.parametrize("status", [Status.PENDING, Status.RUNNING])
def test_an_unfinished_task_is_not_retried(database, status):
    task, _ = task_in(status)
    with pytest.raises(IllegalMove, match=f"A {status} task cannot be retried: it has not finished"):
        task.retry()
    assert Task.objects.count() == 1


@pytest.mark.parametrize("status", FINISHED)
def test_a_finished_task_is_not_cancelled(database, status):
    task, _ = task_in(status)
    with pytest.raises(IllegalMove, match=f"A {status} task cannot become CANCELLED"):
        task.cancel()


def test_cancelling_brings_the_instance_up_to_date(database):
    task = enqueue()
    task.cancel(by="tests")
    assert (task.status, task.is_finished) == ("CANCELLED", True)


def test_run_now_takes_the_pending_and_counts_the_rest(database):
    made = one_of_each()
    later = enqueue(eta=timedelta(days=9))
    changed = taskqueue.reschedule([later.pk, *ids(made)], by="tests", reason="urgent")
    assert (set(changed.done), changed.skipped) == ({later.pk, made[Status.PENDING].pk}, 4)
    later = now_of(later)
    assert later.eta <= later.updated_at
    event = later.events.get()
    assert (event.kind, event.actor, event.data["reason"]) == ("task.rescheduled", "tests", "urgent")
    assert datetime.fromisoformat(event.data["eta"]) == later.eta


def test_later_by_a_delay_or_at_an_instant(database, travel):
    travel(1000)
    by_delay, at = enqueue(), enqueue()
    instant = timezone.now().replace(microsecond=0) + timedelta(days=2)
    taskqueue.reschedule([by_delay.pk], eta=timedelta(minutes=10))
    taskqueue.reschedule([at.pk], eta=instant)
    by_delay = now_of(by_delay)
    assert (by_delay.eta - by_delay.updated_at).total_seconds() == pytest.approx(600, abs=0.01)
    assert now_of(at).eta == instant


def test_another_queue_or_priority_leaves_the_eta_alone(database):
    task = enqueue(eta=timedelta(days=1))
    taskqueue.reschedule([task.pk], queue="bulk", priority=50)
    moved = now_of(task)
    assert (moved.queue, moved.priority, moved.eta) == ("bulk", 50, task.eta)
    assert moved.events.get().data.items() >= {"queue": "bulk", "priority": 50}.items()


@pytest.mark.parametrize(
    ("wish", "error", "named"),
    [
        ({"queue": "bulkk"}, UnknownQueue, "Did you mean 'bulk'"),
        ({"priority": 101}, InvalidCall, "priority=101"),
        ({"eta": timedelta(seconds=-1)}, InvalidCall, "eta="),
        ({"eta": datetime(2030, 1, 1)}, InvalidCall, "eta=.*aware"),
        ({"eta": "now"}, InvalidCall, "eta='now'"),
    ],
)
def test_a_wish_that_makes_no_sense_changes_nothing(database, wish, error, named):
    task = enqueue()
    before = everything(task)
    with pytest.raises(error, match=named):
        taskqueue.reschedule([task.pk], **wish)
    assert everything(task) == before


def test_acting_on_very_many(database):
    made = Task.objects.enqueue_many([tasks.noop] * 1100)
    assert len(taskqueue.reschedule((task.pk for task in made), priority=1).done) == 1100
    changed = taskqueue.cancel(task.pk for task in made)
    assert (len(changed.done), changed.skipped) == (1100, 0)
    assert taskqueue.cancel(task.pk for task in made).skipped == 1100
    assert len(taskqueue.retry(task.pk for task in made)) == 1100
    assert TaskEvent.objects.filter(kind="task.cancelled").count() == 1100


def test_an_actor_is_a_user_or_a_name(database, django_user_model):
    user = django_user_model.objects.create(username="ada")
    for by, actor in [
        (user, f"user:{user.pk}"),
        ("deploy script", "deploy script"),
        (None, "code"),
        ("x" * 999, "x" * 160),
    ]:
        task = enqueue()
        task.cancel(by=by)
        assert task.events.last().actor == actor


@pytest.mark.parametrize("hostile", ["\x00", "\ud800", "x" * 1_000_000])
def test_no_remark_of_a_person_can_break_a_move(database, hostile):
    task, _ = begin()
    task.cancel(by=hostile, reason=hostile)
    assert task.retry(by=hostile, reason=hostile).status == "PENDING"
    assert taskqueue.reschedule([Task.objects.pending().get().pk], by=hostile, reason=hostile).done
    taskqueue.pause("bulk", by=hostile, reason=hostile)
