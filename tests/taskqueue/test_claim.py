"""Claim: the most urgent due tasks, of the right queues, functions and backend."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from django_tasks_retry import taskqueue
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import ClaimMemory
from django_tasks_retry.taskqueue.new_tasks import new_id
from tests import tasks
from tests.steps import enqueue, now_of, stopped

EARLIER = timezone.now() - timedelta(hours=1)


def numbers(leases):
    return [lease.args[0] for lease in leases]


def test_higher_priority_first_then_earlier_eta_then_earlier_enqueued(database):
    for number, priority, minutes in [(1, 0, 9), (2, 5, 9), (3, 0, 5), (4, -5, 0), (5, 5, 8), (6, 0, 5), (7, 100, 9)]:
        enqueue(tasks.noop, number, priority=priority, eta=EARLIER + timedelta(minutes=minutes))
    assert numbers(taskqueue.claim("worker", limit=10)) == [7, 5, 2, 3, 6, 1, 4]


def test_the_order_holds_from_claim_to_claim(database):
    for number, priority in enumerate([0, 3, -3, 3, 0]):
        enqueue(tasks.noop, number, priority=priority)
    memory = ClaimMemory(clock=stopped)
    taken = [numbers(taskqueue.claim("worker", limit=1, memory=memory)) for _ in range(6)]
    assert taken == [[1], [3], [0], [4], [2], []]


def test_a_claim_that_came_short_says_so_and_the_next_one_looks_at_all_lanes(database):
    memory = ClaimMemory(clock=stopped)
    taskqueue.enqueue_many([taskqueue.EnqueueOptions(tasks.noop) for _ in range(2)])
    assert len(taskqueue.claim("worker", limit=1, memory=memory)) == 1
    taskqueue.enqueue_many([taskqueue.EnqueueOptions(tasks.noop, queue="emails")])
    assert [lease.queue for lease in taskqueue.claim("worker", limit=5, memory=memory)] == ["default"]
    assert memory.cursor.came_short
    assert [lease.queue for lease in taskqueue.claim("worker", limit=5, memory=memory)] == ["emails"]
    assert not memory.cursor.came_short


def test_lanes_are_remembered_for_a_second_by_the_clock_of_the_claimer(database):
    seconds = 0.0
    memory = ClaimMemory(clock=lambda: seconds)
    Task.objects.enqueue_many([(tasks.noop, [number]) for number in range(3)])
    assert numbers(taskqueue.claim("worker", memory=memory)) == [0]
    enqueue(tasks.noop, 3, priority=9)
    seconds = 1.0
    assert numbers(taskqueue.claim("worker", memory=memory)) == [1]
    seconds = 1.1
    assert numbers(taskqueue.claim("worker", memory=memory)) == [3]


@pytest.mark.fault("ids_out_of_order")
def test_a_task_that_sorts_before_the_last_one_taken_is_found(database):
    """An earlier eta, or a higher priority, that turns up after the lanes were looked at."""
    memory = ClaimMemory(clock=stopped)
    enqueue(tasks.noop, 1)
    assert numbers(taskqueue.claim("worker", memory=memory)) == [1]
    enqueue(tasks.noop, 2, eta=EARLIER)
    enqueue(tasks.noop, 3, priority=9)
    found = [number for _ in range(2) for number in numbers(taskqueue.claim("worker", limit=2, memory=memory))]
    assert sorted(found) == [2, 3]


def test_the_limit_is_kept(database):
    Task.objects.enqueue_many([(tasks.noop, [n]) for n in range(10)])
    assert numbers(taskqueue.claim("worker", limit=4)) == [0, 1, 2, 3]
    assert numbers(taskqueue.claim("worker", limit=4)) == [4, 5, 6, 7]
    assert numbers(taskqueue.claim("worker", limit=4)) == [8, 9]
    assert taskqueue.claim("worker", limit=4) == []


@pytest.mark.parametrize("limit", [0, -1])
def test_no_appetite_no_claim(database, limit):
    enqueue()
    assert taskqueue.claim("worker", limit=limit) == []


def test_only_due_tasks(database, travel):
    enqueue(tasks.noop, 1, eta=timedelta(minutes=10))
    enqueue(tasks.noop, 2)
    assert numbers(taskqueue.claim("worker", limit=5)) == [2]
    travel(599)
    assert taskqueue.claim("worker", limit=5) == []
    travel(2)
    assert numbers(taskqueue.claim("worker", limit=5)) == [1]


@pytest.mark.parametrize(
    ("queues", "exclude", "taken"),
    [
        (("*",), (), {"default", "emails", "reports", "bulk"}),
        (("emails",), (), {"emails"}),
        (("emails", "bulk"), (), {"emails", "bulk"}),
        (("*s",), (), {"emails", "reports"}),
        (("*",), ("e*", "bulk"), {"default", "reports"}),
        (("*s",), ("reports",), {"emails"}),
        (("Emails",), (), set()),
        ((), (), set()),
    ],
)
def test_queues_by_pattern(database, queues, exclude, taken):
    for queue in ("default", "emails", "reports", "bulk"):
        enqueue(queue=queue)
    leases = taskqueue.claim("worker", limit=10, memory=ClaimMemory(queues, exclude))
    assert {lease.queue for lease in leases} == taken


def test_a_paused_queue_is_left_alone_until_it_is_resumed(database):
    enqueue(queue="bulk")
    enqueue(queue="emails")
    taskqueue.pause("bulk", by="tests", reason="too much")
    assert [lease.queue for lease in taskqueue.claim("worker", limit=5)] == ["emails"]
    assert taskqueue.claim("worker", limit=5) == []
    taskqueue.resume("bulk")
    assert [lease.queue for lease in taskqueue.claim("worker", limit=5)] == ["bulk"]


def test_a_pause_reaches_claimers_that_remember_the_lane(database):
    memory = ClaimMemory(clock=stopped)
    Task.objects.enqueue_many([tasks.noop, tasks.noop])
    assert len(taskqueue.claim("worker", memory=memory)) == 1
    taskqueue.pause("default")
    assert taskqueue.claim("worker", memory=memory) == []


def test_a_running_task_of_a_paused_queue_goes_on(database):
    enqueue()
    [lease] = taskqueue.claim("worker")
    taskqueue.pause("default")
    assert taskqueue.renew([lease]) == {}
    assert taskqueue.complete_task(lease).status == "SUCCESS"


def of_a_later_release(task):
    """A row as another version of the code would have written it."""
    copy = {field.attname: getattr(task, field.attname) for field in Task._meta.fields}
    return copy | {"id": new_id()}


def test_a_task_that_this_process_does_not_know_is_left_for_another(database):
    known = enqueue()
    unknown = Task.objects.create(**of_a_later_release(known) | {"func_path": "os.system", "args": ["rm -rf /"]})
    assert [lease.id for lease in taskqueue.claim("worker", limit=5)] == [known.pk]
    assert (now_of(unknown).status, now_of(unknown).attempts) == ("PENDING", 0)


def test_tasks_of_another_backend_are_left_alone(database, settings):
    one = settings.TASKS["default"]
    settings.TASKS = {"default": one, "other": one}
    mine, theirs = enqueue(), enqueue(backend="other")
    assert [lease.id for lease in taskqueue.claim("worker", limit=5)] == [mine.pk]
    assert [lease.id for lease in taskqueue.claim("worker", limit=5, backend="other")] == [theirs.pk]


def test_the_lease_says_all_that_an_attempt_needs(database):
    task = enqueue(tasks.add, 1, kwargs={"b": 2}, queue="bulk", priority=3, timeout=9, metadata={"x": 1}, interval=60)
    [lease] = taskqueue.claim("worker", lease=5)
    task = now_of(task)
    for name in lease.__slots__:
        assert getattr(lease, name) == getattr(task, name), name
    assert (task.lock_expires_at - task.updated_at).total_seconds() == 5


def test_the_lease_is_as_long_as_the_backend_says(database, configure):
    configure(LEASE=7)
    enqueue()
    [lease] = taskqueue.claim("worker")
    assert (lease.lock_expires_at - lease.last_attempt_at).total_seconds() == 7


def test_started_at_is_kept_and_last_attempt_at_moves(database, travel):
    task = enqueue()
    [first] = taskqueue.claim("worker")
    taskqueue.release_task(first, "test")
    travel(50)
    [second] = taskqueue.claim("worker")
    assert second.started_at == first.started_at == now_of(task).started_at
    assert (second.last_attempt_at - first.last_attempt_at).total_seconds() > 49
