"""A query finds the tasks that it describes, on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_tasks_retry import Abort, taskqueue
from django_tasks_retry.compat import task
from django_tasks_retry.models import Task
from django_tasks_retry.selection.grammar import parse
from django_tasks_retry.selection.matching import has_index, matching
from django_tasks_retry.selection.payload import find_visible
from tests import tasks


def found(text: str, *, can_see_payload: bool = True) -> set[Task]:
    query = parse(text)
    assert not query.problems
    candidates = matching(Task.objects.order_by("-pk"), query, can_see_payload=can_see_payload)
    if not query.has_payload:
        return set(candidates)
    return set(Task.objects.filter(pk__in=find_visible(candidates, query, 100).ids))


@pytest.fixture
def stored(database) -> dict[str, Task]:
    """One task in each status."""
    enqueued = {
        name: Task.objects.enqueue(tasks.noop, kwargs={"n": name}) for name in ("success", "failed", "retrying")
    }
    for lease in taskqueue.claim("web-1-9-abc/1", limit=3):
        match lease.kwargs["n"]:
            case "success":
                taskqueue.complete_task(lease, None)
            case "failed":
                taskqueue.fail_task(lease, Abort("no luck"))
            case _:
                taskqueue.fail_task(lease, RuntimeError("try again"))
    enqueued["running"] = Task.objects.enqueue(tasks.noop, queue="emails")
    taskqueue.claim("web-2-9-abc/1", ["emails"])
    enqueued["ready"] = Task.objects.enqueue(tasks.noop, queue="bulk")
    enqueued["scheduled"] = Task.objects.enqueue(tasks.noop, eta=timedelta(hours=1))
    enqueued["cancelled"] = Task.objects.enqueue(tasks.noop)
    enqueued["cancelled"].cancel()
    return enqueued


@pytest.mark.parametrize("status", ["ready", "scheduled", "retrying", "running", "success", "failed", "cancelled"])
def test_a_status_finds_what_people_call_so(status, stored):
    assert found(f"status:{status}") == {stored[status]}


def test_words_of_one_key_are_alternatives_and_keys_narrow_each_other(stored):
    assert found("status:failed,running") == found("status:failed status:running") == {
        stored["failed"], stored["running"],
    }  # fmt: skip
    assert found("status:running,ready queue:emails") == {stored["running"]}
    assert found("queue:emails queue:bulk") == {stored["running"], stored["ready"]}
    assert found("status:pending") == {stored["ready"], stored["scheduled"], stored["retrying"]}


def test_an_error_means_failed_tasks_unless_a_status_is_given(stored):
    assert found("error:luck") == {stored["failed"]}
    assert found("error:again") == set()
    assert found("error:again status:retrying") == {stored["retrying"]}
    assert found(f"failure:{Task.objects.get(pk=stored['failed'].pk).fingerprint}") == {stored["failed"]}


def test_a_worker_finds_what_it_runs_and_what_it_ended(stored):
    assert found("worker:web-2-9-abc") == {stored["running"]}
    assert found("worker:web-1") == {stored["success"], stored["failed"], stored["retrying"]}


def test_a_run_finds_the_task_that_began_it_and_the_others(stored):
    again = stored["success"].retry()
    assert found(f"run:{stored['success'].run_id}") == {stored["success"], again}


def test_a_period_is_told_by_the_ids(stored, travel):
    everything = set(Task.objects.all())
    assert found("since:1h") == everything
    assert found("until:1h") == found("since:2999-01-01") == set()
    assert found("since:18000d") == everything
    travel(7200)
    assert found("since:1h") == set()
    assert found("until:1h since:3h") == everything


def test_several_ids_are_alternatives(stored):
    pair = stored["ready"], stored["failed"]
    assert found(" ".join(str(task.pk) for task in pair)) == set(pair)


def test_what_an_index_serves_is_known():
    for text in ("status:failed", "0199a3", "error:x", "failure:a", f"run:{'0' * 32}", "status:ready,running"):
        assert has_index(parse(text)), text
    for text in ("status:success", "status:failed,success", "queue:a", "task:a", "arg:1", "worker:w", "since:1h"):
        assert not has_index(parse(text)), text


def function_at(path: str):
    def function() -> None:
        """Does nothing."""

    function.__module__, _, function.__name__ = path.rpartition(".")
    function.__qualname__ = function.__name__
    return task(function)


def test_a_function_is_found_by_its_end_also_one_that_this_process_does_not_know(database):
    paths = ("shop.tasks.renamed", "shop.tasks.unrenamed", "shop.other.renamed")
    known = [Task.objects.enqueue(function_at(path)) for path in paths]
    assert found("task:renamed") == {known[0], known[2]}
    assert found("task:shop.tasks.renamed") == found("task:tasks.renamed") == {known[0]}
    assert found("task:Renamed") == found("task:rena_ed") == found("task:%") == set()
    assert found("status:ready task:unrenamed") == {known[1]}


ORDER = {"order": {"id": 4711, "note": "Größe „XL“", "items": [{"sku": "A-1"}, {"sku": "B-2"}]}, "api_token": "planted"}


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("arg:4711", True), ("arg:471", False), ("arg:order.id=4711", True), ("arg:id=4711", True),
        ("arg:note=4711", False), ("arg:sku=b-2", True), ("arg:order.items.1.sku=B-2", True), ("arg:sku=C", False),
        ('arg:"GRÖSSE"', False), ("arg:größe", True), ("arg:„xl“", True), ("arg:B-2 arg:4711", True),
        ("arg:B-2 arg:C-3", False), ("arg:true", True), ("arg:null", True), ("arg:false", False),
        ("meta:tenant=acme", True), ("meta:acme", True), ("meta:tenant=other", False), ("arg:acme", False),
        ("arg:planted", False), ("arg:api_token=planted", False), ("arg:n=first", True), ("arg:1.5", True),
    ],
)  # fmt: skip
def test_arguments_and_metadata_are_searched_by_value_and_by_name(text, is_found, database):
    task = Task.objects.enqueue(
        tasks.noop, [1.5, True], {**ORDER, "n": "First", "none": None}, metadata={"tenant": "acme"}
    )
    Task.objects.enqueue(tasks.noop)
    assert found(text) == ({task} if is_found else set())
    assert found(text, can_see_payload=False) == set()
