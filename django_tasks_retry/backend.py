"""The backend for `django.tasks`: TASKS = {"default": {"BACKEND": "django_tasks_retry.backend.RetryBackend"}}."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

from django.apps import apps
from django.core.checks import CheckMessage
from django.utils import timezone

from . import registry
from .compat import CORE_HAS_TASKS, BaseTaskBackend, InvalidTask, Task, normalize_json, task_backends
from .conf import message, read_options, suggestion
from .errors import InvalidOptions, UnknownOption
from .middleware import make
from .rules.backoff import BackoffLike
from .rules.policy import ExceptionClasses, attach, make_policy

if TYPE_CHECKING:
    from .taskqueue import EnqueueOptions

POLICY_KEYWORDS = ("max_attempts", "backoff", "timeout", "retry_on", "abort_on", "atomic", "objective")
MAX_QUEUE_NAME = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryTask(Task[Any, Any] if TYPE_CHECKING else Task):  # type: ignore[misc]
    """A task whose retry policy may also be given as keywords of `@task(...)`, if the framework passes them on.

    `using(run_after=timedelta(...))` counts from each enqueue, by the queue's clock.
    """

    max_attempts: int | None = None
    backoff: BackoffLike | None = None
    timeout: float | timedelta | None = None
    retry_on: ExceptionClasses | None = None
    abort_on: ExceptionClasses | None = None
    atomic: bool | None = None
    objective: float | timedelta | None = None
    expires: datetime | timedelta | None = None
    deadline: datetime | timedelta | None = None
    unique_key: str | None = None
    unique_for: float | timedelta | None = None
    on_conflict: str | None = None
    debounce: float | timedelta | None = None
    debounce_max: float | timedelta | None = None
    on_failure: Any = None
    shard_key: str | None = None

    def __post_init__(self) -> None:
        delay: Any = self.run_after
        if isinstance(delay, timedelta) and not isinstance(task_backends[self.backend], RetryBackend):
            # Other backends know instants only.
            object.__setattr__(self, "run_after", timezone.now() + delay)
        # Zero-argument super() does not work in a slotted dataclass before Python 3.14.
        Task.__post_init__(self)
        given = {name: value for name in POLICY_KEYWORDS if (value := getattr(self, name)) is not None}
        if given:
            attach(make_policy(**given), self.func)
        registry.register(self)

    def using(  # noqa: PLR0913 - one for each option
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | timedelta | None = None,
        backend: str | None = None,
        eta: datetime | timedelta | None = None,
        queue: str | None = None,
        expires: datetime | timedelta | None = None,
        deadline: datetime | timedelta | None = None,
        unique_key: str | None = None,
        unique_for: float | timedelta | None = None,
        on_conflict: str | None = None,
        debounce: float | timedelta | None = None,
        debounce_max: float | timedelta | None = None,
        on_failure: Any = None,
        shard_key: str | None = None,
    ) -> RetryTask:
        """Extend the framework's `using` by options of `Task.objects.enqueue()`, which other backends ignore.

        `eta` and `queue` are accepted for `run_after` and `queue_name`.
        """
        when, name = same_option(run_after=run_after, eta=eta), same_option(queue_name=queue_name, queue=queue)
        changed: Any = Task.using(self, priority=priority, queue_name=name, run_after=when, backend=backend)
        ours = {
            "expires": expires, "deadline": deadline, "unique_key": unique_key, "unique_for": unique_for,
            "on_conflict": on_conflict, "debounce": debounce, "debounce_max": debounce_max,
            "on_failure": on_failure, "shard_key": shard_key,
        }  # fmt: skip
        given = {name: value for name, value in ours.items() if value is not None}
        changed = replace(changed, **given) if given else changed
        return cast("RetryTask", changed)


def same_option(**names: Any) -> Any:
    """The value of an option with two names. UnknownOption if both are given."""
    given = {name: value for name, value in names.items() if value is not None}
    if len(given) > 1:
        raise UnknownOption(f"{'= and '.join(given)}= are the same option. Give one of them.")
    return next(iter(given.values()), None)


class RetryBackend(BaseTaskBackend):
    """Keeps tasks in the database. `enqueue` is an INSERT in the caller's own transaction."""

    task_class = RetryTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Any) -> None:
        """Refuse with InvalidTask what cannot be enqueued. `run_after` may be a timedelta, too."""
        if self.queues and task.queue_name not in self.queues:
            known = sorted(map(str, self.queues))
            raise InvalidTask(
                f"Queue '{task.queue_name}' is not valid for backend. TASKS[{self.alias!r}]['QUEUES'] has "
                f"{', '.join(known)}.{suggestion(task.queue_name, known)}"
            )
        if not isinstance(task.run_after, timedelta):
            super().validate_task(task)
        elif task.run_after < timedelta(0):
            raise InvalidTask(f"run_after={task.run_after!r}: a task cannot run before it is enqueued.")
        else:
            replace(task, run_after=None)  # which validates all the rest

    def enqueue_options(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> EnqueueOptions:
        """The options of this call. A subclass may change them with `_replace`."""
        from .taskqueue import EnqueueOptions

        return EnqueueOptions(task, as_json(args), as_json(kwargs), eta=task.run_after, backend=self.alias)

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Store the call and return its READY result, after one `task_enqueued`."""
        from .bridge import as_result
        from .taskqueue import enqueue

        self.validate_task(task)
        return as_result(enqueue(self.enqueue_options(task, args, kwargs)), task)

    def get_result(self, result_id: str) -> Any:
        """Return the stored result, from any process. Raises TaskResultDoesNotExist if this backend has none."""
        from .bridge import read_result

        return read_result(result_id, self.alias)

    def check(self, **kwargs: Any) -> list[CheckMessage]:
        """Return the problems of this entry of TASKS."""
        return [*super().check(**kwargs), *self._check_apps(), *self._check_options(), *self._check_queues()]

    def _check_apps(self) -> Iterable[CheckMessage]:
        if not apps.is_installed("django_tasks_retry"):
            text = f"TASKS[{self.alias!r}] uses RetryBackend, but its app is not installed."
            yield message("E004", text, "Add 'django_tasks_retry' to INSTALLED_APPS and run manage.py migrate.")
        if CORE_HAS_TASKS and apps.is_installed("django_tasks"):
            text = "The backport 'django_tasks' is installed beside Django's own django.tasks."
            hint = "Remove it from INSTALLED_APPS and import from django.tasks: receivers of the backport's signals "
            yield message("W004", text, f"{hint}are never called.")

    def _check_options(self) -> Iterable[CheckMessage]:
        try:
            read_options(self.options, self.alias)
        except InvalidOptions as error:
            yield message("E005", str(error), error.hint or "The reference of settings lists keys and values.")
            return
        try:
            for path in self.options.get("MIDDLEWARE", ()):
                make(path, self.alias)
        except InvalidOptions as error:
            hint = "Give paths of subclasses of django_tasks_retry.middleware.Middleware."
            yield message("E007", str(error), hint)

    def _check_queues(self) -> Iterable[CheckMessage]:
        for queue in sorted(self.queues, key=str):
            if not isinstance(queue, str) or not 1 <= len(queue) <= MAX_QUEUE_NAME:
                text = f"TASKS[{self.alias!r}]['QUEUES'] holds {queue!r}, which cannot name a queue."
                yield message("E006", text, f"Give texts of 1 to {MAX_QUEUE_NAME} characters.")


def as_json(value: Any) -> Any:
    """Normalise as the framework does. Values that it refuses are left to the queue, whose error names the argument."""
    try:
        return normalize_json(value)
    except (TypeError, ValueError):
        if type(value) is dict:
            return {key: as_json(each) for key, each in value.items()}
        return list(map(as_json, value)) if type(value) is tuple else value
