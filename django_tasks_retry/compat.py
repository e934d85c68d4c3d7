"""The only module that knows Django's versions: `django.tasks`, or its backport before Django 6."""

import logging
from typing import TYPE_CHECKING

import django
from django.dispatch import Signal

CORE_HAS_TASKS = django.VERSION >= (6, 0)
HAS_MAILERS = django.VERSION >= (6, 1)

if TYPE_CHECKING or CORE_HAS_TASKS:
    from django.tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, signals, task, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django.tasks.exceptions import InvalidTask, TaskResultDoesNotExist
    from django.utils.json import normalize_json
else:
    try:
        import django_tasks
    except ImportError as missing:
        raise ImportError(
            "django_tasks_retry needs the tasks framework, which Django has from 6.0 on. "
            "On Django 5.2 install its backport: pip install 'django-tasks-retry[backport]'."
        ) from missing
    # The backport registers its system check and log lines only if its own app is installed.
    import django_tasks.checks
    from django_tasks import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME, signals, task, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskContext, TaskError, TaskResult, TaskResultStatus
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.utils import normalize_json

    try:
        from django_tasks.exceptions import InvalidTask
    except ImportError:
        from django_tasks.exceptions import InvalidTaskError as InvalidTask

framework_logger = signals.logger
task_enqueued, task_started, task_finished = signals.task_enqueued, signals.task_started, signals.task_finished
LOG_RECEIVERS = {id(signals.log_task_enqueued), id(signals.log_task_started), id(signals.log_task_finished)}


def is_watched(signal: Signal) -> bool:
    """Return whether there are receivers beside the framework's own, which does nothing but write to its log."""
    return any(receiver[0][0] not in LOG_RECEIVERS for receiver in signal.receivers)


def is_heard(signal: Signal, level: int = logging.INFO) -> bool:
    """Return whether it makes any difference to send a signal that the framework logs at this level."""
    return framework_logger.isEnabledFor(level) or is_watched(signal)


__all__ = [
    "CORE_HAS_TASKS", "DEFAULT_TASK_BACKEND_ALIAS", "DEFAULT_TASK_QUEUE_NAME", "HAS_MAILERS", "BaseTaskBackend",
    "InvalidTask", "Task", "TaskContext", "TaskError", "TaskResult", "TaskResultDoesNotExist", "TaskResultStatus",
    "framework_logger", "is_heard", "is_watched", "normalize_json", "task", "task_backends", "task_enqueued",
    "task_finished", "task_started",
]  # fmt: skip
