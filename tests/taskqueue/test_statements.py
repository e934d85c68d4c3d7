"""How many statements the verbs take, and which database they go to."""

from __future__ import annotations

import re

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

from django_tasks_retry import taskqueue
from django_tasks_retry.conf import options
from django_tasks_retry.models import CALL_COLUMNS, Task
from django_tasks_retry.rules.status import Status
from django_tasks_retry.rules.transitions import POISON_AFTER
from django_tasks_retry.taskqueue import ClaimMemory, Completed, EnqueueOptions, Failed, Released, lease
from django_tasks_retry.taskqueue.engines.statements import FOLDER, named
from tests import tasks
from tests.steps import stopped
from tests.taskqueue.variants import VARIANTS, between

OF_ONE_ARCHIVE = {"archive", "delete_archived", "export_partition", "needed_members"}


def running(count=10, **choices):
    Task.objects.enqueue_many(EnqueueOptions(tasks.noop, **choices) for _ in range(count))
    return taskqueue.claim("worker", limit=count)


def claim_remembering(travel):
    memory = ClaimMemory(clock=stopped)
    taskqueue.claim("worker", memory=memory)
    Task.objects.enqueue_many([tasks.noop] * 20)
    taskqueue.claim("worker", limit=5, memory=memory)
    return lambda: taskqueue.claim("worker", limit=5, memory=memory)


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
    recover_many: 2,
}


@pytest.mark.fault("row_locked_by_vanished_client")
@pytest.mark.parametrize("verb", ONE, ids=lambda verb: verb.__name__)
def test_a_verb_is_one_statement_on_postgresql(database, travel, verb):
    """A claim that knows no lanes looks for them first, and a recovery for tasks with a call for their failure."""
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


NAMES = sorted(file.stem for file in FOLDER.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_begins_with_its_verb_and_then_its_name(name):
    """Tools that watch a database call a statement by its first word."""
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    first, second = named(text).split("\n")[0].split(" ", 1)
    assert first in {"WITH", "INSERT", "SELECT", "DELETE", "UPDATE"}
    assert second.startswith(f"-- {name.removesuffix('_sqlite').replace('_', ' ').capitalize()}")
    assert text.endswith(named(text).partition("\n")[2])


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_is_whole(name):
    """But for the table of one archive, which only a partition's name can name."""
    text = (FOLDER / f"{name}.sql").read_text(encoding="utf-8")
    assert "$" not in text.replace("'$.", "").replace("'$[", "")
    assert name in OF_ONE_ARCHIVE or "{archive}" not in text


def without_breaks(name):
    return " ".join((FOLDER / f"{name}.sql").read_text(encoding="utf-8").split())


def listed(columns, form="{}"):
    return ", ".join(map(form.format, columns))


COPIED = [column for column in (*CALL_COLUMNS, "queue", "priority", "on_failure") if column != "slot"]
STORED = listed(field.column for field in Task._meta.concrete_fields)
BEFORE_ITS_LOSS = [f"{'lost' if column.startswith('lock') else 't'}.{column}" for column in lease.HEADER_COLUMNS]
LISTED = [
    ("claim", f"RETURNING {listed(lease.COLUMNS, 't.{}')} ), events"),
    ("recover", f"AS error, {listed(BEFORE_ITS_LOSS)} ), results"),
    ("finish_repeating", f"( id, {listed(COPIED)}, status, attempts"),
    ("finish_repeating", f"SELECT m.next_id, {listed(COPIED, 't.{}')}, 'PENDING'"),
    ("archive", f"( {STORED} ) SELECT {STORED} FROM"),
]


@pytest.mark.parametrize(("name", "columns"), LISTED)
def test_a_statement_that_lists_columns_leaves_none_out(name, columns):
    """A column that is added to a task, or to a lease, is added here too."""
    assert columns in without_breaks(name)


def test_statements_know_when_a_task_is_poison():
    assert f"t.crashes < {POISON_AFTER})" in without_breaks("claim")
    assert f"crashes >= {POISON_AFTER} " in without_breaks("poison")


@pytest.mark.parametrize("name", VARIANTS)
def test_a_variant_is_what_its_statement_makes_of_it(name):
    """`python -m tests.taskqueue.variants` writes it anew."""
    assert (FOLDER / f"{name}.sql").read_text(encoding="utf-8") == VARIANTS[name].text(FOLDER)


def test_a_completion_has_the_fence_of_every_report():
    fences = {between(name, "), accepted AS", "), moved AS") for name in ("complete", "finish", "finish_repeating")}
    assert len(fences) == 1


ASKS = re.compile(r"vendor (?:==|!=|in|not in)|is_postgresql")
KNOW_THE_DATABASE = {
    "clock.py": "the seam of time, which models need",
    "utc.py": "how instants are stored, which models need",
    "checks.py": "refuses databases without an engine",
    "taskqueue/database.py": "reads the drivers' rows for the engines",
    "worker/startup.py": "bounds all connections of the project, to whichever databases",
    "worker/child/connections.py": "keeps them between tasks, if they can be emptied",
}


def test_nobody_but_the_engines_and_the_guard_asks_which_database_it_is():
    package = FOLDER.parents[1]
    asking = {
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if ASKS.search(file.read_text(encoding="utf-8"))
    }
    rooms = ("taskqueue/engines/", "guard/", "migrations/")
    assert {name for name in asking if not name.startswith(rooms)} == set(KNOW_THE_DATABASE)
