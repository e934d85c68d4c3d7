"""Canary retries: some tasks first, the rest only if enough of them succeed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from django_tasks_retry import clock, lane, registry, retry, taskqueue
from django_tasks_retry.compat import task
from django_tasks_retry.display.explain import explain
from django_tasks_retry.display.scope import current_scope
from django_tasks_retry.models import OperatorEvent, Signal, Task, TaskEvent
from django_tasks_retry.taskqueue import Canary, CanarySweep
from django_tasks_retry.taskqueue.new_tasks import new_id
from django_tasks_retry.testing import Tasks
from django_tasks_retry.verify.audit import verify

broken: set[int] = set()


@task
@retry(max_attempts=1)
def charge(n: int) -> int:
    if n in broken:
        raise ConnectionError("the bank is away")
    return n


@task
@lane("bank", concurrency=1)
@retry(max_attempts=1)
def pay(n: int) -> int:
    return charge.func(n)


@pytest.fixture(autouse=True)
def known() -> None:
    for each in (charge, pay):
        registry.register(each)


@pytest.fixture
def harness(database: str) -> Iterator[Tasks]:
    kit = Tasks()
    broken.clear()
    yield kit
    kit.close()


@pytest.fixture
def failed(harness: Tasks) -> list[Task]:
    broken.update(range(12))
    made = Task.objects.enqueue_many([(charge, [n]) for n in range(12)])
    harness.run_due()
    broken.clear()
    assert Task.objects.failed().count() == 12
    return made


def retry_with_canaries(tasks: list[Task], first: int = 5, continue_if: float = 0.8, **options) -> list[Task]:
    moment = clock.now(Task.objects.db)
    canary = Canary(new_id(), first, continue_if, moment)
    return taskqueue.retry([each.pk for each in tasks], canary=canary, **{"eta": moment, "reason": "INC-7"} | options)


def statuses(made: list[Task]) -> list[str]:
    found = dict(Task.objects.filter(pk__in=[each.pk for each in made]).values_list("pk", "status"))
    return [found[each.pk] for each in made]


def sweep() -> int:
    return len(CanarySweep()())


def is_clean() -> bool:
    *_, audit = verify(Task.objects.db, lease=60.0)
    return audit.is_clean


def cause(each: Task) -> str:
    return TaskEvent.objects.filter(task=each.pk).order_by("-id")[0].data["reason"]


def test_the_rest_runs_once_enough_canaries_have_succeeded(harness, failed):
    made = retry_with_canaries(failed)
    leases = taskqueue.claim("w", limit=50)
    assert [lease.id for lease in leases] == [each.pk for each in made[:5]], "five and no more are due"
    assert sweep() == 0, "they have not ended"
    taskqueue.finish([taskqueue.Completed(each, None) for each in leases[:4]])
    assert sweep() == 0
    taskqueue.finish([taskqueue.Failed(leases[4], ConnectionError("still away"))])
    assert sweep() == 7
    assert cause(made[5]) == "4 of 5 canaries succeeded, 4 were needed"
    harness.run_due()
    assert statuses(made) == ["SUCCESS"] * 4 + ["FAILED"] + ["SUCCESS"] * 7
    assert is_clean()


def test_the_rest_is_cancelled_if_too_few_succeed(harness, failed):
    broken.update({1, 3})
    made = retry_with_canaries(failed)
    harness.run_due()
    assert statuses(made) == ["SUCCESS", "FAILED", "SUCCESS", "FAILED", "SUCCESS", *["CANCELLED"] * 7]
    assert cause(made[9]) == "3 of 5 canaries succeeded, 4 were needed: ConnectionError"
    assert is_clean()


def test_the_tasks_tell_of_the_operation(harness, failed):
    made = retry_with_canaries(failed, by="ops")
    operation = OperatorEvent.objects.get(kind="canary.started")
    assert (operation.actor, operation.reason) == ("ops", "INC-7")
    assert operation.data["canaries"] == [str(each.pk) for each in made[:5]]
    told = [TaskEvent.objects.get(task=each.pk, kind="task.retried").data["cause"] for each in (made[0], made[5])]
    assert told == [f"a canary of {operation.subject}", f"waits for the canaries of {operation.subject}"]


def test_why_says_how_the_canaries_stand(harness, failed):
    made = retry_with_canaries(failed)
    taskqueue.finish([taskqueue.Completed(each, None) for each in taskqueue.claim("w", limit=2)])
    waiting = Task.objects.get(pk=made[7].pk)
    why = explain(waiting, [], current_scope(), can_see_payload=True).sentence
    assert "5 canaries" in why
    assert "2 succeeded, 3 have not finished" in why
    assert "at least 4 succeed" in why


@pytest.mark.parametrize("ended", ["passed", "failed"])
def test_a_worker_that_dies_after_the_decision_leaves_the_rest_to_others(ended, harness, failed, monkeypatch):
    if ended == "failed":
        broken.update(range(12))
    made = retry_with_canaries(failed)
    for lease in taskqueue.claim("w", limit=50):
        taskqueue.finish([taskqueue.Completed(lease, None) if not broken else taskqueue.Failed(lease, OSError("x"))])
    with monkeypatch.context() as patched:
        for name in ("make_due", "cancel"):
            patched.setattr(f"django_tasks_retry.taskqueue.workflows.canary.{name}", dies)
        with pytest.raises(KeyboardInterrupt):
            sweep()
    assert statuses(made[5:]) == ["PENDING"] * 7
    # Whatever becomes of the canaries since: the decision stands.
    Task.objects.get(pk=made[0].pk).delete()
    assert sweep() == 7
    assert statuses(made[5:]) == [{"passed": "PENDING", "failed": "CANCELLED"}[ended]] * 7
    assert len(taskqueue.claim("w", limit=50)) == {"passed": 7, "failed": 0}[ended]


def dies(*_args: object, **_options: object) -> None:
    raise KeyboardInterrupt


def test_many_are_moved_page_by_page(harness, failed, monkeypatch):
    monkeypatch.setattr("django_tasks_retry.taskqueue.workflows.canary.MOST", 3)
    retry_with_canaries(failed)
    taskqueue.finish([taskqueue.Completed(each, None) for each in taskqueue.claim("w", limit=50)])
    assert [sweep() for _ in range(8)].count(3) == 2
    assert len(taskqueue.claim("w", limit=50)) == 7


def test_a_person_decides_by_a_signal(harness, failed):
    made = retry_with_canaries(failed)
    key = Task.objects.get(pk=made[5].pk).waits_for
    taskqueue.signal(key, payload=True, by="ops")
    assert sweep() == 7
    assert cause(made[6]) == "ops decided about the canaries"
    assert len(taskqueue.claim("w", limit=50)) == 12


def test_what_waits_can_be_cancelled_or_run_by_itself(harness, failed):
    made = retry_with_canaries(failed)
    taskqueue.cancel([made[5].pk])
    taskqueue.reschedule([made[6].pk])
    taskqueue.claim("w", limit=50)
    assert statuses(made[5:8]) == ["CANCELLED", "RUNNING", "PENDING"]
    taskqueue.cancel([each.pk for each in made[:5]])
    assert sweep() == 5, "cancelled canaries have not succeeded"
    assert not Task.objects.pending().exists()


def test_the_spread_counts_from_the_decision(harness, failed):
    made = retry_with_canaries(failed, step=timedelta(minutes=1))
    harness.advance(hours=3)
    taskqueue.finish([taskqueue.Completed(each, None) for each in taskqueue.claim("w", limit=50)])
    began = clock.now(Task.objects.db)
    assert sweep() == 7
    waits = [Task.objects.get(pk=each.pk).eta - began for each in made[5:]]
    assert [round(wait.total_seconds() / 60) for wait in waits] == [5, 6, 7, 8, 9, 10, 11]


def test_a_call_that_goes_on_later_adds_to_the_same_operation(harness, failed):
    moment = clock.now(Task.objects.db)
    canary = Canary(new_id(), 5, 0.8, moment)
    first = taskqueue.retry([each.pk for each in failed[:3]], canary=canary, eta=moment)
    harness.run_due()
    made = first + taskqueue.retry([each.pk for each in failed[3:]], canary=canary.after(3), eta=moment)
    assert len(taskqueue.claim("w", limit=50)) == 2
    assert sweep() == 0
    assert Task.objects.filter(waits_for__isnull=False).count() == len(made) - 5


def test_unfinished_keys_lanes_and_series_are_kept(harness):
    broken.update(range(3))
    made = [Task.objects.enqueue(pay, [n], unique_key=f"pay-{n}") for n in range(2)]
    made += [Task.objects.enqueue(pay, [2], interval=60)]
    harness.run_due()
    broken.clear()
    again = retry_with_canaries(made, first=1, continue_if=1.0)
    assert Task.objects.enqueue(pay, [1], unique_key="pay-1").pk == again[1].pk, "the key is taken while it waits"
    harness.run_due()
    assert statuses(again) == ["SUCCESS"] * 3
    following = Task.objects.pending().get(func_path=again[2].func_path)
    assert following.eta - clock.now(Task.objects.db) <= timedelta(minutes=1), "the series goes on in its rhythm"


def test_an_unreadable_operation_wakes_nothing_and_stops_nobody(harness, failed):
    made = retry_with_canaries(failed)
    OperatorEvent.objects.all()._raw_delete(Task.objects.db)
    other = retry_with_canaries(failed, first=1, continue_if=1.0)
    harness.run_due()
    assert sweep() == 0
    assert set(statuses(made[5:])) == {"PENDING"}
    assert set(statuses(other)) == {"SUCCESS"}
    why = explain(Task.objects.get(pk=made[9].pk), [], current_scope(), can_see_payload=True).sentence
    assert "cannot be read" in why


def test_without_a_rest_nothing_waits(harness, failed):
    made = retry_with_canaries(failed[:3])
    harness.run_due()
    assert statuses(made) == ["SUCCESS"] * 3
    assert not Signal.objects.exists()


@pytest.mark.parametrize(
    "odd",
    [{"since": "2026-01-01T00:00:00"}, {"since": "9999-12-31T00:00:00+00:00"}, {"continue_if": "x"}, {"since": 5}],
)
def test_a_start_that_cannot_be_read_is_not_decided_and_raises_nothing(harness, failed, odd):
    made = retry_with_canaries(failed)
    begun = OperatorEvent.objects.get(kind="canary.started")
    OperatorEvent.objects.filter(pk=begun.pk).update(data=begun.data | odd)
    taskqueue.finish([taskqueue.Completed(each, None) for each in taskqueue.claim("w", limit=50)])
    assert sweep() == 0
    assert set(statuses(made)[5:]) == {"PENDING"}
