"""The functions that may run: tasks that were decorated in code, looked up by path, never imported by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from inspect import iscoroutinefunction
from typing import Any, TypeAlias

from django.apps import apps
from django.utils.module_loading import module_has_submodule

from .compat import Task as DjangoTask
from .conf import suggestion, task_modules
from .errors import InvalidPolicy, UnregisteredTask
from .rules.backoff import Backoff, BackoffFunction, Custom
from .rules.names import path_of
from .rules.policy import RetryPolicy, policy_of

AnyTask: TypeAlias = "DjangoTask[Any, Any]"

_tasks: dict[str, AnyTask] = {}
_unimportable: dict[str, str] = {}
_discovering: list[bool] = []
_imported_by_workers: set[str] = set()
_backoff_functions: dict[str, BackoffFunction] = {}


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions of a higher layer: `bridge` sets them, since it knows the words of `django.tasks`."""

    present_lease: Callable[[Any, BaseException], Any] = lambda lease, _: lease
    """Converts a lease to what a user's backoff function receives."""
    send_enqueued: Callable[[Any], None] = lambda _: None  # send `task_enqueued` for a task


hooks = Hooks()


def register(task: AnyTask) -> None:
    """Make a decorated function known. `task.using(...)` makes variants; the first one stands for the function."""
    path = path_of(task.func)
    if _discovering or not apps.ready:
        _imported_by_workers.add(task.func.__module__)
    known = _tasks.get(path)
    if known is None or known.func is not task.func:
        _tasks[path] = task
    function = policy_of(task.func).backoff_function
    if function is not None:
        _backoff_functions[path_of(function)] = function


@cache
def discover() -> None:
    """Import the `tasks` module of each installed app and TASK_MODULES once, and register every task found there."""
    _discovering.append(True)
    try:
        for name in task_modules():
            register_all(module_of(name))
        for config in apps.get_app_configs():
            if config.module is not None and module_has_submodule(config.module, "tasks"):
                register_all(module_of(f"{config.name}.tasks"))
    finally:
        _discovering.clear()


def register_all(namespace: dict[str, Any]) -> None:
    for value in list(namespace.values()):
        if isinstance(value, DjangoTask):
            register(value)


def module_of(name: str) -> dict[str, Any]:
    """Return the names in a module. Empty if it cannot be imported; `unimportable` then has the reason."""
    try:
        module = import_module(name)
    except (Exception, SystemExit) as error:  # the module's own code: another queue's tasks, say, without that queue
        _unimportable[name] = " ".join(f"{type(error).__name__}: {error}".split())
        forget_tasks_of(name)
        return {}
    _imported_by_workers.add(name)
    return vars(module)


def forget_tasks_of(module: str) -> None:
    """Functions of a module that was imported in part would run without the other part."""
    for path in [path for path, task in _tasks.items() if task.func.__module__ == module]:
        del _tasks[path]


def unimportable() -> dict[str, str]:
    """The `tasks` modules that could not be imported, and why."""
    discover()
    return dict(_unimportable)


def imported_by_workers() -> set[str]:
    """Modules with tasks that any process imports which sets Django up and discovers tasks."""
    discover()
    return _imported_by_workers


def registered() -> list[AnyTask]:
    """All tasks that this process knows, also those that workers will not find."""
    discover()
    return list(_tasks.values())


def size() -> int:
    discover()
    return len(_tasks)


def find(path: str) -> AnyTask | None:
    """Return the task of this path, or None if this process does not know it."""
    if path not in _tasks:
        discover()
    return _tasks.get(path)


def known_paths() -> list[str]:
    discover()
    return sorted(_tasks)


def project_paths() -> list[str]:
    """Return the known paths except those of this package, which every project has."""
    return [path for path in known_paths() if not path.startswith(f"{__package__}.")]


def is_coroutine(path: str) -> bool:
    """Return whether this process knows it as a coroutine function, which takes an async slot, not a thread."""
    task = find(path)
    return task is not None and iscoroutinefunction(task.func)


def find_policy(path: str) -> RetryPolicy:
    task = find(path)
    return policy_of(task.func) if task else RetryPolicy()


def resolve(function: Callable[..., Any] | AnyTask) -> AnyTask:
    """The registered task behind a task object or its plain function, or an error that says what to do."""
    if isinstance(function, DjangoTask):
        if find(path_of(function.func)) is None:
            register(function)
        return function
    if not callable(function):
        raise UnregisteredTask(f"{function!r} is not a function. Pass a function decorated with @task.")
    path = path_of(function)
    if "<" in path:
        raise UnregisteredTask(
            f"{path} is a lambda or a local function, which a worker cannot find. "
            "Move it to the module level of an app's tasks.py and decorate it with @task."
        )
    task = find(path)
    if task is None or task.func is not function:
        raise UnregisteredTask(
            f"{path} is not a registered task.{suggestion(path, _tasks)} Decorate it with @task in an app's tasks.py."
        )
    return task


def backoff_function(backoff: Backoff) -> BackoffFunction | None:
    """Return the user's function behind a stored path, or None if this process does not know it."""
    if not isinstance(backoff, Custom):
        return None
    discover()
    return _backoff_functions.get(backoff.path)


def check_backoff(backoff: Backoff | None) -> Backoff | None:
    """A function that no task's policy names would not be found by a worker."""
    if isinstance(backoff, Custom) and backoff_function(backoff) is None:
        raise InvalidPolicy(
            f"backoff={backoff.path}: workers only know functions named by a task's @retry(backoff=…). Name it there."
        )
    return backoff
