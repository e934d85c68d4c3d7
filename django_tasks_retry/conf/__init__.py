"""The only reader of `TASKS`: each alias's OPTIONS become one frozen, validated QueueOptions."""

import difflib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any, TypeVar

from django.conf import settings
from django.core import checks
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from ..compat import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME
from ..durations import as_seconds
from ..errors import InvalidOptions, UnknownBackend, UnknownQueue
from ..rules.backoff import Exponential
from ..rules.lanes.limits import Limit, read_limit
from ..rules.names import path_of
from ..rules.queues import read_backlogs
from .values import CHECKS, DAY, ENTRIES

T = TypeVar("T", bound=Callable[..., Any])
_caches: list[Any] = []


def forgotten(cached: T) -> T:
    """Decorate a cached function of the settings: it forgets its answers if TASKS or DATABASES change, as in tests."""
    _caches.append(cached)
    return cached


def forget(*, setting: str, **_: Any) -> None:
    if setting in {"TASKS", "DATABASES"}:
        for cached in _caches:
            cached.cache_clear()


setting_changed.connect(forget, dispatch_uid="django_tasks_retry.conf")

OURS = "django_tasks_retry.backend.RetryBackend"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """Times are seconds, sizes are bytes. Keys of OPTIONS are these names in capitals."""

    database: str | None = None  # an alias of DATABASES; None asks the database routers
    shards: Sequence[str] = ()  # aliases of DATABASES over which tasks are spread; the order never changes, append only
    console_database: str | None = None  # the alias of a replica, from which lists, charts and metrics are read
    lease: float = 60.0  # how long a claim holds without being renewed
    max_attempts: int = 5
    retry_base: float = 1.5
    retry_factor: float = 2.0
    retry_cap: float = 60.0
    retry_jitter: float = 0.3
    enqueue_timeout: float | None = None  # how long enqueue() may wait outside a transaction; None: for ever
    timeout: float = 3600.0
    timeout_grace: float = 5.0  # how long a function may take to yield to TaskTimeout before its process is replaced
    max_args_size: int = 64 * 1024
    max_result_size: int = 256 * 1024
    payload_keys: Sequence[str] = field(default=(), repr=False)  # Fernet keys: the first encrypts, all decrypt
    payload_storage: str | None = None  # an alias of STORAGES, which keeps larger payloads as files
    offload_size: int = 32 * 1024  # of JSON that still stands in the row if there is a PAYLOAD_STORAGE
    keep_success: float | None = 14 * DAY  # None keeps them for ever
    keep_failed: float | None = 90 * DAY
    keep_cancelled: float | None = 90 * DAY
    export_to: str | None = None  # a folder, or a storage, to which tasks are written before they are pruned
    release: str = ""  # of the project, as operators know it: a tag or a commit
    deploy_guard: str | None = None  # "report" or "pause" functions that fail more since a new RELEASE
    admin_email_interval: float | None = 3600.0  # between two mails about one failure; None mails each
    task_modules: Sequence[str] = ()  # imported by workers beside the `tasks` module of each installed app
    middleware: Sequence[str] = ()  # paths of subclasses of Middleware, the outermost first
    alerts: Sequence[str] = field(default=(), repr=False)  # addresses of mail and webhooks; see analysis.alerts
    attempt_log_lines: int = 50  # of a failed attempt, kept with its event; 0 keeps none
    metrics_token: str | None = field(default=None, repr=False)  # a request that sends it may read the metrics
    metrics_permission: str | None = None  # or a user with this permission
    api_token_age: float | None = None  # seconds for which a token of the JSON API is valid; None: there is no API
    backlog: Mapping[str, Any] = field(default_factory=dict)  # by queue or lane:…: how many tasks may be pending
    schedules: Mapping[str, Any] = field(default_factory=dict)  # by name: task, and cron or every
    lanes: Mapping[str, Any] = field(default_factory=dict)  # limits by patterns of lanes, queue:… and function:…
    objectives: Mapping[str, Any] = field(default_factory=dict)  # by queue: time within which its tasks should start
    objective_share: float = 0.99  # of attempts, that should
    priority_aging: float | None = None  # seconds after which a waiting task counts as one priority higher; None: never

    @property
    def backoff(self) -> Exponential:
        return Exponential(self.retry_base, self.retry_factor, self.retry_cap, self.retry_jitter)

    @property
    def limits(self) -> dict[str, Limit]:
        """The limits of LANES, by pattern."""
        return {pattern: read_limit(value) for pattern, value in self.lanes.items()}

    def objective_of(self, queue: str) -> float:
        return as_seconds(self.objectives[queue])


DEFAULTS = QueueOptions()
KEYS = {field.name.upper(): field.name for field in fields(QueueOptions)}
RENAMED = {"PATIENCE": "PRIORITY_AGING", "LOG_LINES": "ATTEMPT_LOG_LINES"}


def message(number: str, text: str, hint: str | None = None) -> checks.CheckMessage:
    """Return an error (E…) or a warning (W…) of a system check."""
    kind = checks.Error if number.startswith("E") else checks.Warning
    return kind(text, hint=hint, id=f"django_tasks_retry.{number}")


def read_options(raw: Mapping[str, Any], alias: str) -> QueueOptions:
    """Validate OPTIONS as a whole, or say which key is wrong and what to write instead."""
    where = f"TASKS[{alias!r}]['OPTIONS']"
    for key in raw:
        if key not in KEYS:
            advice = f" It is called {RENAMED[key]!r}." if key in RENAMED else suggestion(key, KEYS)
            raise InvalidOptions(f"{where} has the unknown key {key!r}.{advice}", f"The keys are {', '.join(KEYS)}.")
    options = QueueOptions(**{KEYS[key]: value for key, value in raw.items()})
    for key, check in CHECKS.items():
        try:
            check(getattr(options, KEYS[key]))
        except (TypeError, ValueError) as error:
            hint = f"An entry has the keys {', '.join(ENTRIES[key])}." if key in ENTRIES else ""
            raise InvalidOptions(f"{where}[{key!r}] is not valid: {error}", hint) from None
    if options.shards and (options.database or options.console_database):
        raise InvalidOptions(f"{where}: SHARDS names the databases, so leave DATABASE and CONSOLE_DATABASE out.")
    try:
        _ = options.backoff
    except (TypeError, ValueError) as error:
        raise InvalidOptions(f"{where}: the RETRY_… keys make no backoff: {error}") from None
    return options


def named_in_settings(backend: str) -> str:
    """Return the alias in TASKS of a backend. Those of further shards are not there: `default@q1` is of `default`."""
    return backend if backend in getattr(settings, "TASKS", {}) else backend.partition("@")[0]


@forgotten
@cache
def shard_backends(backend: str) -> tuple[str, ...]:
    """Return the backends of all shards, by number: `default`, `default@q1`, …; or the backend alone.

    The first shard has the name in TASKS, for it may hold tasks from before the split.
    """
    name = named_in_settings(backend)
    shards = backend_settings(name).get("OPTIONS", {}).get("SHARDS") or ()
    return name, *(f"{name}@{shard}" for shard in shards[1:])


@forgotten
@cache
def shard_number(backend: str) -> int:
    shards = shard_backends(backend)
    return shards.index(backend) if backend in shards else 0


def shards_by_name(backend: str) -> dict[str, str]:
    """Return the backends of the shards by their names in SHARDS."""
    return dict(zip(options(backend).shards, shard_backends(backend), strict=False))


def is_sharded(backend: str) -> bool:
    return len(shard_backends(backend)) > 1


@forgotten
@cache
def has_shards() -> bool:
    return any(map(is_sharded, configured_backends()))


def backend_settings(alias: str) -> Mapping[str, Any]:
    alias = named_in_settings(alias)
    backends: Mapping[str, Mapping[str, Any]] = getattr(settings, "TASKS", {})
    if alias not in backends and alias != DEFAULT_TASK_BACKEND_ALIAS:
        raise InvalidOptions(f"TASKS has no backend {alias!r}.{suggestion(alias, backends)}")
    return backends.get(alias, {})


@forgotten
@cache
def configured_backends() -> tuple[str, ...]:
    """The backends of TASKS that are ours or inherit from ours, by their aliases; of a sharded one, each shard's."""
    backends: Mapping[str, Mapping[str, Any]] = getattr(settings, "TASKS", {})
    ours = (alias for alias, backend in backends.items() if is_ours(backend.get("BACKEND", "")))
    return tuple(shard for alias in ours for shard in shard_backends(alias))


def is_ours(path: str) -> bool:
    try:
        backend = import_string(path)
    except Exception:  # whatever a module raises when it is imported; Django's own check of TASKS reports it
        return False
    return OURS in map(path_of, getattr(backend, "__mro__", ()))


def check_backend(alias: str) -> str:
    """Refuse a backend whose tasks no worker of ours would ever look for."""
    ours = configured_backends()
    if alias in ours:
        return alias
    path = getattr(settings, "TASKS", {}).get(alias, {}).get("BACKEND")
    what = f"TASKS[{alias!r}] is {path}, not a RetryBackend." if path else f"TASKS has no backend {alias!r}."
    advice = f"Tasks are kept by {', '.join(map(repr, ours))}.{suggestion(alias, ours)}"
    if not ours:
        advice = f'None of TASKS is one: add TASKS = {{"default": {{"BACKEND": "{OURS}"}}}} to the settings.'
    raise UnknownBackend(f"{what} {advice}")


@forgotten
@cache
def options(alias: str = DEFAULT_TASK_BACKEND_ALIAS) -> QueueOptions:
    """Return the options of a backend. Backends of other packages have the defaults."""
    entry = backend_settings(alias)
    if not is_ours(entry.get("BACKEND", OURS)):
        return DEFAULTS
    chosen = read_options(entry.get("OPTIONS", {}), named_in_settings(alias))
    return replace(chosen, database=chosen.shards[shard_number(alias)]) if chosen.shards else chosen


@forgotten
@cache
def backlogs(alias: str = DEFAULT_TASK_BACKEND_ALIAS) -> dict[str, int]:
    """Return how many tasks may be pending, by pattern. Not to be changed."""
    return read_backlogs(options(alias).backlog)


def task_modules() -> list[str]:
    """Return the TASK_MODULES of all our backends: a worker of one knows the tasks of all."""
    named: dict[str, None] = {}
    for alias in configured_backends():
        with suppress(InvalidOptions):  # which the backend's own check reports
            named |= dict.fromkeys(options(alias).task_modules)
    return list(named)


@forgotten
@cache
def queues(alias: str = DEFAULT_TASK_BACKEND_ALIAS) -> tuple[str, ...]:
    """The queues that tasks may be sent to; none listed means any."""
    return tuple(backend_settings(alias).get("QUEUES", [DEFAULT_TASK_QUEUE_NAME]))


def check_queue(queue: str, alias: str) -> str:
    known = queues(alias)
    if known and queue not in known:
        raise UnknownQueue(
            f"Queue {queue!r} is not in TASKS[{alias!r}]['QUEUES'] ({', '.join(known)}).{suggestion(queue, known)}"
        )
    return queue


def suggestion(wrong: str, known: Any) -> str:
    close = difflib.get_close_matches(str(wrong), list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
