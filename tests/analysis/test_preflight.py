"""Preflight: stored work that the code of a release could not run, and what that release would change."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType

import pytest
from django.db import connections
from django.db.migrations.recorder import MigrationRecorder

from django_tasks_retry import registry, taskqueue
from django_tasks_retry.analysis import preflight
from django_tasks_retry.models import Schedule, Step, Task
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.steps import claim_one
from tests.workflows import tasks as workflow_tasks

WRITES = ("INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "TRUNCATE", "LOCK")


@contextmanager
def without(path: str) -> Iterator[None]:
    """Leave a function out of the code, as a release does that has removed or renamed it."""
    forgotten = registry._tasks.pop(path)
    try:
        yield
    finally:
        registry.register(forgotten)


def found(using: str, kind: str) -> list[str]:
    return [each.text for each in preflight.preflight("default", using) if each.kind == kind]


def test_a_stored_task_whose_function_is_gone_would_wait_for_ever(database):
    Task.objects.enqueue_many([(tasks.noop,)] * 3)
    assert found(database, "missing_function") == []
    with without("tests.tasks.noop"):
        [text] = found(database, "missing_function")
        answer = tasks_command("preflight", "--json")
    assert text.startswith("3 tasks of tests.tasks.noop would wait for ever")
    assert (answer.code, answer.record["findings"][0]["kind"]) == (1, "missing_function")


def test_a_schedule_whose_function_is_gone_is_named(database):
    Schedule.objects.create(name="nightly", task=tasks.noop, cron="0 3 * * *")
    with without("tests.tasks.noop"):
        [text] = found(database, "missing_function")
    assert text.startswith("The schedule nightly calls tests.tasks.noop")


def test_failures_whose_function_is_gone_are_a_warning(database):
    Task.objects.enqueue(tasks.noop, max_attempts=1)
    taskqueue.fail_task(claim_one("w-1-1-a/1"), RuntimeError("broken"))
    with without("tests.tasks.noop"):
        answer = tasks_command("preflight")
        strict = tasks_command("preflight", "--fail-on", "warning")
    assert "1 task of tests.tasks.noop failed in the last 7 days" in answer.out
    assert (answer.code, strict.code) == (0, 1)


def test_arguments_that_no_longer_fit_are_named_with_a_task(database):
    task = Task.objects.enqueue(tasks.add, [1, 2])
    Schedule.objects.create(name="sums", task=tasks.add, args=[1, 2], every=60)
    assert found(database, "arguments") == []

    def add(total: int) -> int:
        return total

    with replaced("tests.tasks.add", add):
        of_task, of_schedule = found(database, "arguments")
    assert str(task.pk)[:18] in of_task
    assert "too many positional arguments" in of_task
    assert "The runs of schedule sums would fail" in of_schedule


@contextmanager
def replaced(path: str, function: object) -> Iterator[None]:
    """Put another function in its place, as a release does that has changed its parameters."""
    known = registry._tasks[path]
    changed = replace(known)
    object.__setattr__(changed, "func", function)
    registry._tasks[path] = changed
    try:
        yield
    finally:
        registry._tasks[path] = known


@pytest.fixture
def suspended(database) -> Task:
    Task.objects.enqueue(workflow_tasks.nap)
    return Task.objects.get(pk=claim_one("w-1-1-a/1").id)


def remembered(task: Task, name: str, kind: str) -> None:
    Step.objects.using(task._state.db).create(
        task_id=task.pk, name=name, kind=kind, attempt=task.attempts, actor=task.locked_by, ts=task.updated_at
    )


def test_steps_that_the_code_still_has_are_no_finding(suspended, database):
    remembered(suspended, "nap", "sleep")
    remembered(suspended, "parts", "batch")
    assert found(database, "steps") == []


def test_a_step_that_the_code_no_longer_names_is_a_warning(suspended, database):
    remembered(suspended, "a rest of the past", "sleep")
    assert "'a rest of the past', which its module no longer names" in found(database, "steps")[0]


def test_a_step_of_another_kind_is_an_error(suspended, database):
    remembered(suspended, "nap", "batch")
    assert "recorded step 'nap' as a batch. It is a sleep in this code" in found(database, "steps")[0]


def test_names_of_steps_are_found_in_coroutines_too(tmp_path, monkeypatch):
    source = "async def pay(context):\n    await context.astep('charge', int)\n    await context.asleep('rest', 5)\n"
    (tmp_path / "coroutines_of_a_shop.py").write_text(source, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    names = preflight.names_of_steps(importlib.import_module("coroutines_of_a_shop"))
    assert {kind: [each.pattern for each in found] for kind, found in names.items()} == {
        "step": ["charge"],
        "sleep": ["rest"],
    }


def test_computed_names_of_steps_match_their_constant_part():
    assert preflight.names_of_steps(ModuleType("without a source")) == {}
    pattern = preflight.pattern_of(preflight.ast.parse("f'page {n}'", mode="eval").body)
    assert preflight.re.fullmatch(pattern, "page 17")
    assert not preflight.re.fullmatch(pattern, "chapter 17")


def test_schedules_that_the_release_creates_changes_or_stops_are_listed(database, configure):
    configure(SCHEDULES={"new": {"task": "tests.tasks.noop", "every": 60}})
    list(taskqueue.sync_schedules())
    assert not any("new" in text for text in found(database, "schedules"))
    configure(SCHEDULES={"new": {"task": "tests.tasks.noop", "every": 90}})
    assert "The schedule new would change: every." in found(database, "schedules")
    configure(SCHEDULES={"newer": {"task": "tests.tasks.noop", "every": 90}})
    texts = found(database, "schedules")
    assert "The schedule newer would be created." in texts
    assert any(text.startswith("The schedule new would stop") for text in texts)


def test_a_limit_below_what_runs_is_a_warning(database, configure):
    Task.objects.enqueue_many([{"func": tasks.noop, "lane": "shop-7"}] * 3)
    assert len(taskqueue.claim("w-1-1-a/1", limit=3)) == 3
    configure(LANES={"shop-*": {"concurrency": 3}})
    assert found(database, "limits") == []
    configure(LANES={"shop-*": {"concurrency": 1}})
    expected = "3 tasks of shop-7 run, and this code allows 1: none starts before 3 have ended."
    assert found(database, "limits") == [expected]


def test_a_migration_that_is_not_applied_is_a_note(database):
    recorder = MigrationRecorder(connections[database])
    last = max(name for app, name in recorder.applied_migrations() if app == "django_tasks_retry")
    assert found(database, "migrations") == []
    recorder.migration_qs.filter(app="django_tasks_retry", name=last).delete()
    assert f"django_tasks_retry.{last} is not applied" in found(database, "migrations")[0]


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ('CREATE INDEX "a" ON "shop_order" ("id")', "shop_order"),
        ('CREATE INDEX CONCURRENTLY "a" ON "shop_order" ("id")', None),
        ('ALTER TABLE "shop_order" ADD CONSTRAINT "a" CHECK (id > 0)', "shop_order"),
        ('ALTER TABLE "shop_order" ADD CONSTRAINT "a" CHECK (id > 0) NOT VALID', None),
        ('ALTER TABLE "shop_order" ALTER COLUMN "id" TYPE bigint', "shop_order"),
        ('ALTER TABLE "shop_order" ADD COLUMN "note" text NULL', None),
    ],
)
def test_statements_that_lock_a_table_are_known(statement, table):
    match = preflight.LOCKING.search(statement)
    assert (match and (match["indexed"] or match["altered"]).strip('"')) == table


def test_nothing_is_written(database):
    Task.objects.enqueue_many([(tasks.noop,), (tasks.add, [1, 2])])
    written: list[str] = []

    def note(execute, sql, params, many, context):
        if sql.lstrip().upper().startswith(WRITES):
            written.append(sql)
        return execute(sql, params, many, context)

    with connections[database].execute_wrapper(note), without("tests.tasks.noop"):
        assert preflight.preflight("default", database)
    assert written == []
