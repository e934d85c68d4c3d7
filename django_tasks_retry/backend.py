"""The backend for `django.tasks`: TASKS = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend"}}."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.apps import apps
from django.core.checks import CheckMessage, Error
from django.utils import timezone

from . import registry
from .compat import BaseTaskBackend, Task, normalize_json, task_enqueued
from .conf import read_options
from .errors import InvalidOptions, InvalidPolicy
from .rules.policy import POLICY_ATTRIBUTE, make_policy

POLICY_KEYWORDS = ("max_attempts", "backoff", "timeout", "retry_on", "abort_on", "atomic")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTask(Task[Any, Any] if TYPE_CHECKING else Task):  # type: ignore[misc]
    """A task whose retry policy may also be given as keywords of `@task(...)`."""

    max_attempts: Any = None
    backoff: Any = None
    timeout: Any = None
    retry_on: Any = None
    abort_on: Any = None
    atomic: Any = None

    def __post_init__(self) -> None:
        delay: Any = self.run_after
        if isinstance(delay, timedelta):
            object.__setattr__(self, "run_after", timezone.now() + delay)
        # Zero-argument super() does not work in a slotted dataclass before Python 3.14.
        Task.__post_init__(self)
        self._take_policy()
        registry.register(self)

    def _take_policy(self) -> None:
        given = {name: getattr(self, name) for name in POLICY_KEYWORDS if getattr(self, name) is not None}
        if not given:
            return
        policy = make_policy(**given)
        present = getattr(self.func, POLICY_ATTRIBUTE, policy)
        if present != policy:
            raise InvalidPolicy(f"{self.func.__qualname__} has a @retry policy and policy keywords in @task: keep one.")
        setattr(self.func, POLICY_ATTRIBUTE, policy)


class RetryBackend(BaseTaskBackend):
    task_class = RetryTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        from .bridge import as_result
        from .taskqueue import Request, enqueue

        self.validate_task(task)
        plain: Any = normalize_json({"args": list(args), "kwargs": kwargs})
        row = enqueue(Request(task, **plain, eta=task.run_after, backend=self.alias))
        result = as_result(row, task)
        # Robust: the row exists, so a failing receiver must not make the caller enqueue a second time.
        task_enqueued.send_robust(type(self), task_result=result)
        return result

    async def aenqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        return await sync_to_async(self.enqueue, thread_sensitive=True)(task, args, kwargs)

    def get_result(self, result_id: str) -> Any:
        from .bridge import read_result

        return read_result(result_id, self.alias)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        return [*super().check(**kwargs), *self._own_checks()]

    def _own_checks(self) -> Iterable[CheckMessage]:
        if not apps.is_installed("django_tasks_retry"):
            yield Error(
                f"TASKS[{self.alias!r}] uses RetryBackend, but its app is not installed.",
                hint="Add 'django_tasks_retry' to INSTALLED_APPS and run manage.py migrate.",
                id="django_tasks_retry.E004",
            )
        try:
            read_options(self.options, self.alias)
        except InvalidOptions as error:
            yield Error(str(error), hint="See the settings reference.", id="django_tasks_retry.E005")
