"""If nothing can run, the console says what is wrong and what to type."""

from __future__ import annotations

import html
import sys
import types

import pytest
from django.db import connections, transaction

from django_tasks_retry import registry
from django_tasks_retry.compat import task
from django_tasks_retry.errors import NotMigrated
from django_tasks_retry.models import Task
from tests import tasks
from tests.admin.test_task_page import BASE, serve, why

PAGES = ("overview", "task", "failuregroup", "queue", "worker")


def overview(client) -> str:
    return html.unescape(client.get(f"{BASE}/overview/").content.decode())


@pytest.fixture
def stray(monkeypatch):
    """A task in a module that nothing imports which workers import."""

    def stray_task() -> None:
        pass

    stray_task.__module__, stray_task.__qualname__ = "stray_shop.receipts", "stray_task"
    module = types.ModuleType("stray_shop.receipts")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    module.stray_task = stray_task
    yield task(stray_task)
    registry.forget_tasks_of(module.__name__)


@pytest.mark.fault("no_task_known")
def test_workers_that_know_no_task(database, operator):
    waiting = Task.objects.enqueue(tasks.noop)
    serve(known=[])
    assert "the worker of its queue knows no task at all. Add tests to INSTALLED_APPS" in why(operator, waiting)
    assert "w-0 knows no task at all, so it runs none. Add your app to INSTALLED_APPS" in overview(operator)


@pytest.mark.fault("task_that_workers_will_not_find")
def test_a_task_that_workers_will_not_find(database, operator, stray, caplog):
    waiting = Task.objects.enqueue(stray)
    Task.objects.enqueue(stray)
    [said] = [record.getMessage() for record in caplog.records if record.name == "django_tasks_retry"]
    assert "stray_shop.receipts.stray_task was enqueued, but workers will not find it" in said
    assert "Add 'stray_shop.receipts' to TASKS['default']['OPTIONS']['TASK_MODULES']" in said
    serve()
    advice = "Workers do not import stray_shop.receipts: add it to TASK_MODULES in the OPTIONS of TASKS"
    assert advice in why(operator, waiting)
    assert advice in overview(operator)


@pytest.mark.fault("task_that_workers_will_not_find")
def test_a_task_that_workers_will_find_once_they_have_the_code_of_this_site(database, operator):
    waiting = Task.objects.enqueue(tasks.noop)
    serve(known=["some.other"])
    assert "The workers run other code than this site: restart them." in why(operator, waiting)
    assert "The workers run other code than this site: restart them." in overview(operator)


def test_a_task_that_this_site_does_not_know_either(database, operator):
    waiting = Task.objects.enqueue(tasks.noop)
    serve(known=["some.other"])
    forgotten = registry._tasks.pop("tests.tasks.noop")
    try:
        assert "Deploy the code that defines it, or cancel its tasks." in why(operator, waiting)
    finally:
        registry.register(forgotten)


FOREIGN = {
    "none": {},
    "another's": {"default": {"BACKEND": "some.other.Backend", "OPTIONS": {"of": "its own"}}},
}


@pytest.mark.fault("no_backend_in_the_settings")
@pytest.mark.parametrize("case", FOREIGN)
def test_no_backend_of_ours(database, operator, settings, case):
    waiting = Task.objects.enqueue(tasks.noop)
    settings.TASKS = FOREIGN[case]
    assert "No backend of TASKS is RetryBackend" in overview(operator)
    assert 'TASKS = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend"}}' in overview(operator)
    assert "TASKS has no RetryBackend named default, so no worker runs it." in why(operator, waiting)


@pytest.mark.fault("not_migrated")
def test_without_its_tables_the_console_says_migrate(database, operator):
    with connections[database].cursor() as cursor:
        cursor.execute("ALTER TABLE django_tasks_retry_task RENAME TO elsewhere")
    for page in PAGES:
        answer = operator.get(f"{BASE}/{page}/")
        assert (answer.status_code, "python manage.py migrate" in answer.content.decode()) == (503, True), page
    with pytest.raises(NotMigrated, match=r"Run: python manage\.py migrate"), transaction.atomic(database):
        Task.objects.enqueue(tasks.noop)


@pytest.mark.fault("not_migrated")
def test_without_its_guard_the_overview_says_migrate(database, operator):
    assert "enforce" not in overview(operator)
    table = "" if connections[database].vendor == "sqlite" else " ON django_tasks_retry_task"
    with connections[database].cursor() as cursor:
        cursor.execute(f"DROP TRIGGER dtr_guard_move{table}")
    assert "The database does not enforce the task contract, so no worker starts." in overview(operator)
