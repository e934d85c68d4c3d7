"""A call whose unique key is taken: keep, replace, run_again, raise, and debounce."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import transaction

from django_tasks_retry import taskqueue
from django_tasks_retry.errors import AlreadyEnqueued, InvalidCall
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status
from tests import tasks
from tests.model.invariants import violations
from tests.steps import claim_one, enqueue, kinds, now_of

MODES = ["keep", "replace", "run_again", "raise"]


def unfinished() -> list:
    return list(Task.objects.unfinished().order_by("pk").values_list("pk", flat=True))


@pytest.mark.parametrize("mode", MODES)
def test_a_free_key_is_taken_in_every_mode(database, mode):
    task = enqueue(unique_key="k", on_conflict=mode)
    assert (task.already_enqueued, now_of(task).unique_key, task.follows_id) == (False, "k", None)


def test_replace_cancels_the_one_that_waits_and_says_by_what(database):
    first = enqueue(tasks.add, 1, 2, unique_key="k")
    second = enqueue(tasks.add, 3, 4, unique_key="k", on_conflict="replace")
    assert (second.already_enqueued, now_of(second).args, unfinished()) == (False, [3, 4], [second.pk])
    assert (now_of(first).status, first.events.get().data["reason"]) == (Status.CANCELLED, f"replaced by {second.pk}")
    assert violations(database) == []


def test_replace_comes_after_the_one_that_runs_and_the_newest_call_wins(database):
    running = enqueue(tasks.add, 1, 2, unique_key="k")
    lease = claim_one()
    second = enqueue(tasks.add, 3, 4, unique_key="k", on_conflict="replace")
    third = enqueue(tasks.add, 5, 6, unique_key="k", on_conflict="replace")
    assert (third.follows_id, now_of(second).status) == (running.pk, Status.CANCELLED)
    assert taskqueue.claim("worker") == []
    taskqueue.complete_task(lease)
    assert claim_one().args == [5, 6]


def test_again_keeps_the_one_that_waits(database):
    first = enqueue(unique_key="k")
    second = enqueue(unique_key="k", on_conflict="run_again")
    assert (second.pk, second.already_enqueued) == (first.pk, True)


def test_again_runs_once_more_after_the_running_one_and_only_once(database):
    enqueue(unique_key="k")
    lease = claim_one()
    more = [enqueue(unique_key="k", on_conflict="run_again") for _ in range(3)]
    assert [task.already_enqueued for task in more] == [False, True, True]
    assert len({task.pk for task in more}) == 1
    assert taskqueue.claim("worker") == []
    taskqueue.complete_task(lease)
    assert claim_one().id == more[0].pk


def test_a_running_one_that_fails_goes_back_under_its_key_and_the_other_waits_for_it(database, travel):
    first = enqueue(unique_key="k")
    lease = claim_one()
    following = enqueue(unique_key="k", on_conflict="run_again")
    taskqueue.fail_task(lease, ValueError())
    assert now_of(first).status == Status.PENDING
    assert taskqueue.claim("worker") == []
    travel(60)
    assert claim_one("boss/1").id == first.pk, "its retry first"
    [lost] = taskqueue.recover(dead="boss/1", actor="boss")
    assert (lost.lease.id, lost.status) == (first.pk, Status.PENDING)
    assert (claim_one().id, now_of(following).status) == (first.pk, Status.PENDING)


def test_the_two_places_of_a_key_are_taken_in_turn(database):
    enqueue(unique_key="k", on_conflict="run_again")
    for _ in range(4):
        lease = claim_one()
        following = enqueue(unique_key="k", on_conflict="run_again")
        assert (following.follows_id, following.already_enqueued) == (lease.id, False)
        taskqueue.complete_task(lease)
    assert set(Task.objects.values_list("unique_key", flat=True)) == {"k", "k:again"}
    assert violations(database) == []


@pytest.mark.parametrize("runs", [False, True], ids=["it waits", "it runs"])
def test_raise_names_the_holder_and_leaves_the_callers_transaction_alone(database, runs):
    first = enqueue(unique_key="k")
    if runs:
        claim_one()
    with transaction.atomic(using=database):
        before = enqueue()
        with pytest.raises(AlreadyEnqueued, match=f"task {first.pk} holds the unique key 'k'") as raised:
            Task.objects.enqueue_many(
                [{"func": tasks.noop}, {"func": tasks.noop, "unique_key": "k", "on_conflict": "raise"}]
            )
        after = enqueue()
    assert raised.value.task.pk == first.pk
    assert unfinished() == sorted([first.pk, before.pk, after.pk])


def test_within_one_batch_each_call_meets_the_ones_before_it(database):
    calls = [{"func": tasks.noop, "args": [n], "unique_key": "k", "on_conflict": "replace"} for n in range(3)]
    made = Task.objects.enqueue_many(calls)
    assert [now_of(task).status for task in made] == [Status.CANCELLED, Status.CANCELLED, Status.PENDING]


def test_the_framework_brings_keys_and_modes_along(database):
    unique = tasks.noop.using(unique_key="k")
    first, second = unique.enqueue(), unique.enqueue()
    third = unique.using(on_conflict="replace").enqueue()
    assert first.id == second.id != third.id
    assert unfinished() == [Task.objects.get(pk=third.id).pk]


# Debounce


def test_calls_put_the_waiting_task_off_until_they_pause(database, travel):
    first = enqueue(unique_key="k", debounce=30)
    assert first.eta - first.created_at == timedelta(seconds=30)
    for _ in range(3):
        travel(20)
        again = enqueue(unique_key="k", debounce=30)
        assert (again.pk, again.already_enqueued) == (first.pk, True)
        assert taskqueue.claim("worker") == []
    assert timedelta(seconds=89) < now_of(first).eta - first.created_at < timedelta(seconds=110)
    assert kinds(first) == ["task.rescheduled"] * 3
    travel(31)
    assert claim_one().id == first.pk


def test_no_call_puts_it_off_beyond_the_maximum(database, travel):
    first = enqueue(unique_key="k", debounce=30, debounce_max=45)
    travel(25)
    enqueue(unique_key="k", debounce=30, debounce_max=45)
    assert now_of(first).eta == first.created_at + timedelta(seconds=45)
    travel(21)
    assert claim_one().id == first.pk


def test_a_burst_writes_a_few_moves_only(database):
    first = enqueue(unique_key="k", debounce=300)
    for _ in range(20):
        enqueue(unique_key="k", debounce=300)
    assert kinds(first) == []


def test_a_call_during_the_run_is_not_lost(database, travel):
    enqueue(unique_key="k", debounce=30)
    travel(31)
    lease = claim_one()
    following = enqueue(unique_key="k", debounce=30)
    assert (following.follows_id, following.eta - following.created_at) == (lease.id, timedelta(seconds=30))
    taskqueue.complete_task(lease)
    assert taskqueue.claim("worker") == []
    travel(31)
    assert claim_one().id == following.pk


def test_a_call_during_the_run_is_dropped_where_it_says_keep(database, travel):
    first = enqueue(unique_key="k", debounce=30)
    travel(31)
    claim_one()
    assert enqueue(unique_key="k", debounce=30, on_conflict="keep").pk == first.pk


def test_a_task_that_waits_for_its_retry_keeps_its_time(database, travel):
    first = enqueue(unique_key="k", debounce=30)
    travel(31)
    taskqueue.fail_task(claim_one(), ValueError())
    eta = now_of(first).eta
    assert enqueue(unique_key="k", debounce=300).pk == first.pk
    assert now_of(first).eta == eta


WRONG = [
    ({"on_conflict": "replace"}, "Give unique_key=, too"),
    ({"debounce": 3}, "Give unique_key=, too"),
    (
        {"unique_key": "k", "on_conflict": "replaces"},
        "give one of keep, replace, run_again, raise. Did you mean 'replace'",
    ),
    ({"unique_key": "k", "on_conflict": "again"}, "on_conflict='again' is called 'run_again' now"),
    ({"unique_key": "k", "on_conflict": "run_again", "interval": 9}, "there would be two series. Cancel the old one"),
    ({"unique_key": "k" * 195, "on_conflict": "run_again"}, "Give at most 194 characters"),
    ({"unique_key": "k", "debounce_max": 9}, "Give debounce=, too"),
    ({"unique_key": "k", "debounce": 9, "debounce_max": 8}, "Give a longer one"),
    ({"unique_key": "k", "debounce": 0}, "more than zero"),
    ({"unique_key": "k", "debounce": "soon"}, "give seconds"),
    ({"unique_key": "k", "debounce": 9, "on_conflict": "replace"}, "keeps its arguments. Pass ids"),
    ({"unique_key": "k", "debounce": 9, "eta": timedelta(seconds=3)}, "Leave eta out"),
    ({"unique_key": "k", "debounce": 9, "interval": 60, "on_conflict": "keep"}, "has its slots"),
    ({"unique_key": "k", "debounce": 9, "expires": timedelta(seconds=60)}, "Use debounce_max="),
]


@pytest.mark.parametrize(("options", "says"), WRONG, ids=[says for _, says in WRONG])
def test_what_contradicts_itself_is_refused_and_says_what_to_do(database, options, says):
    with pytest.raises(InvalidCall, match=says):
        enqueue(**options)
    assert not Task.objects.exists()
