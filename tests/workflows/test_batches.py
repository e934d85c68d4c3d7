"""Batches: who waits for one holds no worker, is woken once by its last member, and is told how each has ended."""

from __future__ import annotations

from itertools import islice

import pytest
from asgiref.sync import async_to_sync

from django_tasks_retry import call, chain, taskqueue
from django_tasks_retry.errors import InvalidCall
from django_tasks_retry.models import Step, Task, TaskEvent
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Sweep
from django_tasks_retry.taskqueue.workflows import batches
from django_tasks_retry.taskqueue.workflows.context import Results
from django_tasks_retry.taskqueue.workflows.wake import make_due, wake
from django_tasks_retry.testing.inline import hooks_run_after
from tests.steps import claim_one, kinds, now_of
from tests.workflows import tasks
from tests.workflows.scene import members, result_of, run_one


def test_who_gathers_is_given_the_results_in_the_order_of_the_calls(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[3, 1, 2]])
    run_one(harness)
    waiting = now_of(task)
    assert waiting.status == "PENDING"
    assert waiting.waits_for == f"batch:{members()[0].batch}"
    assert {member.parent_id for member in members()} == {task.pk}
    harness.run_due()
    assert result_of(task) == [3, 1, 2]
    assert now_of(task).attempts - now_of(task).refunds == 1
    assert kinds(task) == [
        "task.running", "task.released", "task.rescheduled", "task.running", "task.completed",
    ]  # fmt: skip
    released = TaskEvent.objects.get(task_id=task.pk, kind="task.released")
    assert released.data["reason"] == "waits for 3 tasks"


def test_an_empty_batch_is_not_waited_for(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[]])
    harness.run_due()
    assert result_of(task) == []
    assert "task.released" not in kinds(task)


def test_of_a_generator_no_more_than_a_page_is_held_before_it_is_written(harness, monkeypatch):
    monkeypatch.setattr(batches, "CHUNK", 10)
    held: list[int] = []

    def count(number: int) -> int:
        held.append(number - len(members()))
        return number

    task = Task.objects.enqueue(tasks.fan_out_of, [45])
    monkeypatch.setattr(tasks, "each", count)
    run_one(harness)
    assert len(members()) == 45
    assert max(held) < 10
    assert now_of(task).waits_for == f"batch:{members()[0].batch}"


def test_a_generator_that_fails_after_pages_were_written_leaves_no_member(harness, monkeypatch):
    monkeypatch.setattr(batches, "CHUNK", 10)
    monkeypatch.setattr(tasks, "each", lambda number: 1 // (35 - number))
    task = Task.objects.enqueue(tasks.fan_out_of, [45], max_attempts=1)
    run_one(harness)
    assert now_of(task).last_error["exception"] == "builtins.ZeroDivisionError"
    assert members() == []


def test_batches_of_batches(harness):
    task = Task.objects.enqueue(tasks.tree, [3, 2])
    harness.run_due()
    assert result_of(task) == 8
    assert set(Task.objects.values_list("run_id", flat=True)) == {task.run_id}


def test_members_may_add_members(harness):
    task = Task.objects.enqueue(tasks.grow, [3])
    harness.run_due()
    assert result_of(task) == [3, 2, 1, 0]
    assert len({member.batch for member in members()}) == 1


def test_who_is_no_member_adds_none(harness):
    task = Task.objects.enqueue(tasks.growing, [1], max_attempts=1)
    harness.run_due()
    assert "no member of a batch" in now_of(task).last_error["message"]


def test_a_failed_member_fails_who_gathered_it_after_all_have_ended(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[1, -2, 3]], max_attempts=1)
    harness.run_due()
    assert sorted(tasks.calls) == [-2, 1, 3]
    error = now_of(task).last_error
    assert error["exception"] == "django_tasks_retry.errors.MembersFailed"
    assert "1 of the tasks that were gathered did not succeed" in error["message"]
    assert "-2 is negative" in error["message"]


def test_errors_are_returned_where_they_are_asked_for(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[1, -2, 3]], {"errors": "return"})
    harness.run_due()
    assert result_of(task) == [1, "-2 is negative", 3]


def test_fail_fast_wakes_at_the_first_failure_and_cancels_the_rest(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[-1, 2, 3]], {"fail_fast": True}, max_attempts=1, priority=5)
    run_one(harness)
    run_one(harness)
    assert now_of(task).waits_for is None
    harness.run_due()
    assert [member.status for member in members()] == ["FAILED", "CANCELLED", "CANCELLED"]
    assert now_of(task).status == "FAILED"
    assert tasks.calls == [-1]


def test_a_retry_of_a_failed_member_lets_the_whole_go_on(harness, monkeypatch):
    task = Task.objects.enqueue(tasks.fan_out, [[-1, 2]])
    run_one(harness)
    run_one(harness)
    [failed, _] = members()
    monkeypatch.setattr(tasks, "is_negative", lambda number: False)
    again = now_of(failed).retry()
    assert again.batch == failed.batch
    harness.run_due()
    assert result_of(task) == [-1, 2]
    assert kinds(task).count("task.rescheduled") == 1


def test_results_are_read_a_page_at_a_time_and_once_more(harness, monkeypatch):
    monkeypatch.setattr("django_tasks_retry.taskqueue.workflows.results.PAGE", 2)
    task = Task.objects.enqueue(tasks.fan_out, [[5, 4, 3, 2, 1]])
    harness.run_due()
    results = Results(members()[0].batch, harness.using)
    assert list(islice(results, 3)) == [5, 4, 3]
    assert (list(results), list(results)) == (result_of(task), result_of(task))
    assert (results[0], results[-1], len(results)) == (5, 1, 5)
    with pytest.raises(IndexError):
        results[5]


def test_a_cancelled_parent_takes_its_batches_along_level_by_level(harness):
    task = Task.objects.enqueue(tasks.tree, [2, 2])
    for _ in range(3):
        run_one(harness)
    assert len(members()) == 6
    now_of(task).cancel(by="ana", reason="wrong file")
    assert {member.status for member in members()} == {"CANCELLED"}
    events = TaskEvent.objects.filter(kind="task.cancelled")
    assert set(events.values_list("actor", flat=True)) == {"ana"}
    assert {event.data["reason"] for event in events} == {"wrong file"}


def test_a_cancelled_member_counts_as_ended(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[1, 2]], {"errors": "return"})
    run_one(harness)
    for member in members():
        member.cancel(reason="not needed")
    Sweep().everything()
    harness.run_due()
    assert result_of(task) == ["not needed", "not needed"]


def test_a_lost_worker_of_the_last_member_wakes_who_waits(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[1]], {"errors": "return"})
    run_one(harness)
    claim_one("dies")
    harness.advance(seconds=61)
    with hooks_run_after():
        taskqueue.recover()
    assert [member.status for member in members()] == ["FAILED"]
    assert now_of(task).waits_for is None


def test_a_wake_that_comes_late_leaves_a_backoff_alone(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[-1]])
    run_one(harness)
    key = now_of(task).waits_for
    run_one(harness)
    run_one(harness)
    backing_off = now_of(task)
    assert (backing_off.status, backing_off.last_error["terminal"]) == ("PENDING", False)
    assert wake([key], harness.using) == []
    assert make_due([task.pk], [key], harness.using) == []
    assert now_of(task).eta == backing_off.eta


def test_a_new_time_set_by_an_operator_ends_the_wait(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[1]])
    run_one(harness)
    taskqueue.reschedule([task.pk], priority=3)
    assert now_of(task).waits_for
    taskqueue.reschedule([task.pk])
    assert now_of(task).waits_for is None
    run_one(harness)
    assert now_of(task).waits_for, "it looks again, and waits again"


def test_a_callback_is_due_when_the_batch_has_ended_however_it_did(harness):
    enqueued = Task.objects.enqueue_many([call(tasks.fragile, n) for n in (1, -2)], then=call(tasks.publish, "news"))
    callback = Task.objects.get(waits_for__isnull=False)
    assert [task.batch for task in enqueued] == [enqueued[0].batch] * 2
    assert callback.waits_for == f"batch:{enqueued[0].batch}"
    assert callback.batch is None
    harness.run_due()
    assert result_of(callback) == ["news", 1, 0]


def test_the_callback_of_an_empty_batch_is_due_at_once(harness):
    assert Task.objects.enqueue_many([], then=call(tasks.publish, "nothing")) == []
    harness.run_due()
    assert result_of(Task.objects.get()) == ["nothing"]


def test_a_retried_callback_knows_its_batch(harness):
    Task.objects.enqueue_many([call(tasks.double, 4)], then=call(tasks.publish, "news"))
    callback = Task.objects.get(waits_for__isnull=False)
    harness.run_due()
    again = now_of(callback).retry()
    harness.run_due()
    assert result_of(again) == ["news", 8]


def test_cancelling_the_callback_cancels_its_batch(harness):
    enqueued = Task.objects.enqueue_many([call(tasks.double, 4)], then=call(tasks.publish, "news"))
    Task.objects.get(waits_for__isnull=False).cancel(reason="no news")
    assert now_of(enqueued[0]).status == "CANCELLED"


@pytest.mark.parametrize("options", [{"unique_key": "k"}, {"eta": 5}, {"interval": 9}])
def test_a_callback_is_due_with_its_batch_and_not_otherwise(database, options):
    with pytest.raises(InvalidCall):
        Task.objects.enqueue_many([call(tasks.double, 4)], then=call(tasks.publish, "x").using(**options))
    assert not Task.objects.exists()


def test_members_have_no_unique_key(database):
    with pytest.raises(InvalidCall, match="member of a batch is waited for"):
        Task.objects.enqueue_many([call(tasks.double, 1).using(unique_key="k")], then=call(tasks.publish, "x"))


def test_a_chain_hands_each_result_on(harness):
    task = chain(call(tasks.double, 1), call(tasks.double), call(tasks.double).using(queue="emails")).enqueue()
    harness.run_due()
    assert result_of(task) == 8
    assert [member.queue for member in members()] == ["default", "default", "emails"]


def test_an_immutable_call_is_not_given_the_result_before(harness):
    calls = call(tasks.double, 1), call(tasks.announce).immutable(), call(tasks.echo, "x").using(priority=5).immutable()
    task = chain(*calls).enqueue()
    harness.run_due()
    assert tasks.calls == [1, "announced", "x"]
    assert result_of(task) == "x"


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (call(tasks.double, 2), "too many positional arguments"),
        (call(tasks.announce), "too many positional arguments"),
        (call(tasks.double).immutable(), "missing a required argument: 'number'"),
        (call(tasks.place), "missing a required (keyword-only )?argument: 'shelf'"),
        (call(tasks.double).using(prioritty=5), "Unknown option prioritty="),
        (call(tasks.double).using(queue="nowhere"), "nowhere"),
        (call(tasks.double).using(unique_key="k"), "unique_key='k'"),
        (call(tasks.place, shelf=b"a"), "kwargs\\['shelf'\\] is a bytes"),
        (call(tasks.write), "not a registered task"),
    ],
)
def test_every_call_of_a_chain_is_checked_when_it_is_enqueued(database, wrong, words):
    with pytest.raises(InvalidCall, match=words):
        chain(call(tasks.double, 1), wrong).enqueue()
    assert not Task.objects.exists()


def test_a_chain_of_nothing_is_refused(database):
    with pytest.raises(InvalidCall, match="one call"):
        chain().enqueue()


def test_a_retry_begins_anew_or_resumes(harness):
    task = Task.objects.enqueue(tasks.steps, ["a", "b"], {"fail_at": "b"}, max_attempts=1)
    harness.run_due()
    assert now_of(task).status == "FAILED"
    resumed = now_of(task).retry(resume=True)
    anew = now_of(task).retry()
    assert list(Step.objects.filter(task_id=resumed.pk).values_list("name", "attempt")) == [("a", 0), ("b", 0)]
    assert not Step.objects.filter(task_id=anew.pk).exists()
    tasks.calls.clear()
    harness.run_due(limit=9)
    assert tasks.calls == ["a", "b"], "the one that began anew"


def test_a_resumed_parent_finds_the_batch_and_its_retried_members(harness, monkeypatch):
    task = Task.objects.enqueue(tasks.fan_out, [[-1, 2]], max_attempts=1)
    harness.run_due()
    assert now_of(task).status == "FAILED"
    monkeypatch.setattr(tasks, "is_negative", lambda number: False)
    [failed] = Task.objects.filter(batch__isnull=False, status=Status.FAILED)
    failed.retry()
    resumed = now_of(task).retry(resume=True)
    harness.run_due()
    assert result_of(resumed) == [-1, 2]
    assert tasks.calls == [-1, 2, -1], "the other member was not run again"


@pytest.mark.plain_layout  # a dropped period has no count of its rows
def test_members_are_kept_while_somebody_may_ask_for_their_results(harness):
    task = Task.objects.enqueue(tasks.fan_out, [[1, 2]])
    run_one(harness)
    run_one(harness)
    harness.advance(days=400)
    assert list(taskqueue.prune()) == []
    harness.run_due()
    assert result_of(task) == [1, 2]
    harness.advance(days=400)
    assert list(taskqueue.prune()) == [3]


def test_a_batch_tells_its_progress(harness):
    rows = Task.objects.enqueue_many([call(tasks.double, n) for n in range(3)], then=call(tasks.publish, "x"))
    batch = Task.objects.batch(rows[0])
    assert batch == Task.objects.batch(str(rows[0].batch))
    assert (batch.progress(), batch.progress().ended) == ((3, 0, 0, 0), 0.0)
    rows[0].cancel(by="test")
    run_one(harness)
    assert batch.progress() == (1, 1, 0, 1)
    assert async_to_sync(batch.aprogress)().ended == pytest.approx(2 / 3)
    now_of(rows[0]).retry(by="test")
    assert (batch.progress(), batch.progress().total) == ((2, 1, 0, 0), 3)
    with pytest.raises(InvalidCall, match="no member of a batch"):
        Task.objects.batch(Task.objects.enqueue(tasks.double, [1]))
