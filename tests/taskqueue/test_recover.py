"""Recover: lost leases are released at once while attempts are left, and end if none is."""

from __future__ import annotations

from datetime import timedelta

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from tests import tasks
from tests.steps import begin, claim_one, enqueue, kinds, now_of, refused_by_the_database


def many(count, worker="worker", **options):
    Task.objects.enqueue_many([{"func": tasks.noop, **options} for _ in range(count)])
    return taskqueue.claim(worker, limit=count)


def test_nothing_is_taken_from_a_worker_whose_lease_holds(database, travel):
    task, _ = begin()
    travel(59)
    assert taskqueue.recover() == []
    assert now_of(task).status == "RUNNING"


def test_with_budget_left_the_task_keeps_its_place_in_line_and_the_attempt_stays_spent(database, travel):
    before, lease = begin(max_attempts=2, backoff=[1000])
    travel(61)
    later = enqueue()
    [receipt] = taskqueue.recover(actor="keeper")
    task = now_of(before)
    assert (receipt.lease, receipt.status, receipt.accepted, receipt.final_status) == (lease, "PENDING", True, None)
    assert (receipt.cause, receipt.error, receipt.ts, receipt.eta) == ("lease expired", None, task.updated_at, task.eta)
    assert (task.attempts, task.refunds, task.last_error, task.eta) == (1, 0, None, before.eta)
    assert task.eta < later.eta
    lost = task.events.last()
    assert (lost.kind, lost.actor, lost.data) == (
        "task.lease_lost", "keeper", {"cause": "lease expired", "worker": "worker"},
    )  # fmt: skip
    assert claim_one().id == task.pk


def test_with_the_budget_spent_the_task_fails(database, travel):
    task, _ = begin(max_attempts=1)
    travel(61)
    [receipt] = taskqueue.recover()
    task = now_of(task)
    assert (receipt.final_status, receipt.error, receipt.ts) == ("FAILED", task.last_error, task.finished_at)
    assert (receipt.ts - receipt.lease.last_attempt_at).total_seconds() > 60
    assert kinds(task) == ["task.running", "task.lease_lost", "task.failed"]
    assert task.last_error == task.outcome.error
    assert set(task.last_error) >= {
        "ts", "message", "code", "exception", "traceback", "attempt", "max_attempts", "terminal", "backoff_ms",
        "next_eta",
    }  # fmt: skip
    assert (task.last_error["terminal"], task.last_error["code"]) == (True, "LEASE_LOST")


def test_a_task_that_kills_every_worker_does_not_run_for_ever(database, travel):
    task = enqueue(max_attempts=3)
    for _ in range(3):
        claim_one()
        travel(61)
        taskqueue.recover()
    assert (now_of(task).status, now_of(task).attempts) == ("FAILED", 3)
    assert taskqueue.claim("worker") == []


def test_refunds_extend_the_life_of_a_task_that_loses_its_lease(database, travel):
    task = enqueue(max_attempts=1)
    taskqueue.release_task(claim_one(), "shutdown")
    claim_one()
    travel(61)
    taskqueue.recover()
    assert (now_of(task).status, now_of(task).attempts, now_of(task).refunds) == ("FAILED", 2, 1)


def test_the_leases_of_a_dead_worker_are_taken_back_before_they_expire(database):
    mine, others = many(3, "house/1"), many(2, "house/2")
    recovered = taskqueue.recover(actor="house", dead="house/1", cause="killed by signal 9")
    assert sorted(receipt.lease for receipt in recovered) == sorted(mine)
    assert Task.objects.running().count() == len(others)
    event = Task.objects.get(pk=mine[0].id).events.last()
    assert (event.actor, event.data["cause"]) == ("house", "killed by signal 9")


def test_many_at_once_and_no_more_than_asked(database, travel):
    many(5, max_attempts=1)
    many(5)
    travel(61)
    assert [len(taskqueue.recover(limit=4)) for _ in range(4)] == [4, 4, 2, 0]
    assert (Task.objects.failed().count(), Task.objects.pending().count()) == (5, 5)


def test_named_questions_agree_with_what_is_done(database, travel):
    leases = many(3)
    enqueue(eta=timedelta(hours=1))
    taskqueue.complete_task(leases[0])
    taskqueue.renew([leases[1]], 1000)
    travel(61)
    assert Task.objects.lease_expired().get().pk == leases[2].id
    assert Task.objects.leased_to("worker").count() == 2
    taskqueue.recover()
    assert not Task.objects.lease_expired().exists()
    assert Task.objects.retrying().get().pk == leases[2].id
    assert Task.objects.due().get().pk == leases[2].id
    assert Task.objects.scheduled().count() == 1
    assert (Task.objects.unfinished().count(), Task.objects.finished().count()) == (3, 1)


def crash(worker: str = "boss/1") -> None:
    claim_one(worker)
    taskqueue.recover(dead=worker, actor="boss", crashed=True)


def test_after_two_crashes_in_a_row_ordinary_claims_leave_it_alone(database):
    poison = enqueue()
    crash()
    crash()
    other = enqueue()
    assert [lease.id for lease in taskqueue.claim("worker", limit=10)] == [other.pk]
    [found] = taskqueue.find_poison(lambda queue: True).tasks
    assert found.pk == poison.pk
    assert taskqueue.claim_task(found, "worker").id == poison.pk
    assert taskqueue.find_poison(lambda queue: True).tasks == []


def test_an_attempt_that_ends_by_itself_clears_the_suspicion(database, travel):
    poison = enqueue()
    crash()
    taskqueue.fail_task(claim_one(), ValueError())
    travel(60)
    crash()
    assert now_of(poison).crashes == 1
    assert taskqueue.find_poison(lambda queue: True).tasks == []


def test_a_lease_that_merely_expired_is_no_crash_and_a_release_clears_nothing(database, travel):
    poison = enqueue()
    crash()
    claim_one("boss/2")
    travel(120)
    taskqueue.recover()
    taskqueue.release_task(claim_one(), "shut down")
    assert now_of(poison).crashes == 1


def test_the_database_lets_nobody_clear_a_suspicion_by_the_way(database):
    poison = enqueue()
    crash()
    with refused_by_the_database(poison, database):
        Task.objects.filter(pk=poison.pk).update(crashes=None)


def test_only_leases_that_their_supervisor_knows_are_renewed(database, travel):
    """A claim whose answer never came runs out, although its worker renews the others."""
    known, unanswered = many(2, worker="sup/1")
    travel(30)
    assert taskqueue.renew_workers(["sup/1"], 60, actor="sup", known={known.id}) == {known.id}
    travel(40)
    assert [receipt.lease.id for receipt in taskqueue.recover()] == [unanswered.id]
