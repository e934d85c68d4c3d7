"""How many statements the verbs take, and which database they go to."""

from __future__ import annotations

import math
from string import Template

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.conf import options
from django_tasks_retry.models import Task
from django_tasks_retry.rules.status import Status
from django_tasks_retry.taskqueue import Completed, Failed, Lanes, Released, Request
from django_tasks_retry.taskqueue.engines.statements import FOLDER, named
from tests import tasks


def running(count=10, **choices):
    Task.objects.enqueue_many(Request(tasks.noop, **choices) for _ in range(count))
    return taskqueue.claim("worker", limit=count)


def claim_remembering(travel):
    lanes = Lanes(slow=math.inf)  # however busy the machine is
    taskqueue.claim("worker", lanes=lanes)
    Task.objects.enqueue_many([tasks.noop] * 20)
    taskqueue.claim("worker", limit=5, lanes=lanes)
    lanes.looked_at = math.inf
    return lambda: taskqueue.claim("worker", limit=5, lanes=lanes)


def claim_afresh(travel):
    Task.objects.enqueue_many([tasks.noop] * 20)
    return lambda: taskqueue.claim("worker", limit=20)


def complete_many(travel):
    leases = running(interval=60)
    return lambda: taskqueue.finish([Completed(lease, 1) for lease in leases])


def report_of_every_kind(travel):
    done, failed, released, *rest = running()
    outcomes = [Completed(done), Failed(failed, ValueError()), Released(released, "x")]
    return lambda: taskqueue.finish(outcomes + [Failed(lease, ValueError()) for lease in rest])


def renew_many(travel):
    leases = running()
    return lambda: taskqueue.renew(leases)


def renew_held(travel):
    Task.objects.enqueue_many([tasks.noop] * 10)
    leases = taskqueue.claim("sup/1", limit=10)
    return lambda: taskqueue.renew_workers(["sup/1"], 60, actor="sup", known=[lease.id for lease in leases])


def recover_many(travel):
    running(max_attempts=1)
    running()
    travel(61)
    return lambda: taskqueue.recover()


ONE = {
    claim_remembering: 1,
    claim_afresh: 2,
    complete_many: 1,
    report_of_every_kind: 1,
    renew_many: 1,
    renew_held: 1,
    recover_many: 1,
}


@pytest.mark.fault("F38")
@pytest.mark.parametrize("verb", ONE, ids=lambda verb: verb.__name__)
def test_a_verb_is_one_statement_on_postgresql(database, travel, verb):
    """A claim that knows no lanes looks for them first."""
    act = verb(travel)
    options()
    with CaptureQueriesContext(connections[database]) as captured:
        assert act() is not None
    if connections[database].vendor == "postgresql":
        assert len(captured) == ONE[verb], captured.captured_queries


def test_a_rejected_report_asks_once_more_for_the_reason(database):
    first, second, *_ = leases = running()
    taskqueue.cancel([first.id, second.id])
    with CaptureQueriesContext(connections[database]) as captured:
        receipts = taskqueue.finish([Completed(lease) for lease in leases])
    assert [receipt.lost for receipt in receipts[:3]] == ["CANCELLED", "CANCELLED", None]
    if connections[database].vendor == "postgresql":
        assert len(captured) == 2


OTHER = {"default": "postgresql", "postgresql": "default"}


def whole_life(using):
    """Every verb once."""
    tasks_of = Task.objects.using(using)
    task = Task.objects.enqueue(tasks.noop, unique_key="k", interval=60)
    Task.objects.enqueue(tasks.noop, unique_key="k")
    Task.objects.enqueue_many([tasks.noop, tasks.noop, tasks.noop])
    done, failed, released, late = taskqueue.claim("worker", limit=4)
    taskqueue.renew([done])
    taskqueue.finish([Completed(done), Failed(failed, ValueError()), Released(released, "x")])
    taskqueue.complete_task(late)
    assert not taskqueue.finish([Completed(late)])[0].accepted
    taskqueue.recover()
    taskqueue.reschedule([failed.id], priority=3)
    taskqueue.pause("bulk")
    taskqueue.resume("bulk")
    pending = tasks_of.get(pk=released.id)
    pending.cancel()
    pending.retry()
    list(taskqueue.prune(keep={Status.SUCCESS: -1, Status.CANCELLED: -1}))
    return task


def test_everything_goes_to_the_database_of_the_options(database, configure):
    """Not to the one that the routers name."""
    chosen = OTHER[database]
    configure(DATABASE=chosen)
    with CaptureQueriesContext(connections[database]) as routed, CaptureQueriesContext(connections[chosen]) as asked:
        whole_life(chosen)
    assert routed.captured_queries == []
    assert len(asked) > 10
    assert Task.objects.using(chosen).count() > 0
    assert Task.objects.using(database).count() == 0


def test_without_the_option_everything_goes_where_the_routers_say(database):
    with CaptureQueriesContext(connections[OTHER[database]]) as other:
        whole_life(database)
    assert other.captured_queries == []


@pytest.mark.parametrize("name", sorted(file.stem for file in FOLDER.iterdir() if file.name != "repeat.sql"))
def test_a_statement_begins_with_its_verb_and_then_its_name(name):
    """Tools that watch a database call a statement by its first word."""
    text = Template((FOLDER / f"{name}.sql").read_text()).safe_substitute()
    first, second = named(text).split("\n")[0].split(" ", 1)
    assert first in {"WITH", "INSERT", "SELECT"}
    assert second.startswith(f"-- {name.partition('_')[0].capitalize()}")
    assert text.endswith(named(text).partition("\n")[2])
