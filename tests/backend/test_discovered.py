"""A worker finds the tasks of modules that discovery imports, and no others."""

import sys
from types import ModuleType

import pytest

from django_tasks_retry import registry
from django_tasks_retry.compat import task


def function_of(module: str):
    def tidy() -> None: ...

    tidy.__module__, tidy.__qualname__ = module, "tidy"
    return tidy


@pytest.fixture
def module(monkeypatch) -> str:
    monkeypatch.setitem(sys.modules, "warehouse.views", ModuleType("warehouse.views"))
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    monkeypatch.setattr(registry, "_imported_by_workers", set(registry._imported_by_workers))
    return "warehouse.views"


def test_a_task_that_is_decorated_after_discovery_is_not_taken_for_found(module):
    registry.discover.__wrapped__()
    registry.register(task(function_of(module)))
    assert module not in registry.imported_by_workers()


def test_a_task_that_is_decorated_while_apps_are_loaded_is_found(module, monkeypatch):
    monkeypatch.setattr(registry.apps, "ready", False)
    registered = task(function_of(module))
    registry.register(registered)
    assert module in registry.imported_by_workers()
