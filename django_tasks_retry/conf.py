"""The only reader of `TASKS`: each alias's OPTIONS become one frozen, validated QueueOptions."""

import difflib
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from functools import cache
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

from django.conf import settings
from django.core import checks
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from .compat import DEFAULT_TASK_BACKEND_ALIAS, DEFAULT_TASK_QUEUE_NAME
from .durations import as_seconds, in_seconds
from .errors import InvalidOptions, UnknownBackend, UnknownQueue
from .rules.backoff import Exponential
from .rules.lanes.limits import KEYS as LIMIT_KEYS
from .rules.lanes.limits import Limit, read_limit
from .rules.lanes.templates import RESERVED
from .rules.names import NUMBERS, path_of
from .rules.policy import check_max_attempts, check_timeout
from .rules.queues import read_backlogs

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

DAY = 86400.0
MAX_RELEASE = 100
SHORTEST_TOKEN = 16
MOST_LINES = 1000
RECEIVER = re.compile(r"https?://[\w.:-]+(?:[/?][!-~]*)?|[^\s@:/]+@[^\s@:/]+", re.ASCII)
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
ENTRIES = {"BACKLOG": ("max_pending",), "LANES": LIMIT_KEYS}
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


def check(is_valid: Callable[[Any], bool], expected: str) -> Callable[[Any], None]:
    """Return a check that says what to give instead of a value that is not valid."""

    def check_value(value: Any) -> None:
        if not is_valid(value):
            raise ValueError(f"{value!r:.60}: give {expected}.")

    return check_value


def check_database(value: object) -> None:
    if value is not None and value not in settings.DATABASES:
        raise ValueError(f"{value!r} is not an alias of DATABASES ({', '.join(settings.DATABASES)}).")


def check_shards(value: Any) -> None:
    if not is_list_of_texts(value) or len(set(value)) < len(value) or len(value) > NUMBERS:
        raise ValueError(f"{value!r:.60}: give a list of aliases of DATABASES, each of them once.")
    for alias in value:
        check_database(alias)
        if "sqlite" in str(settings.DATABASES[alias].get("ENGINE", "")):
            raise ValueError(f"{alias!r} is SQLite: only PostgreSQL can be a shard.")


def check_token(value: object) -> None:
    """The message does not repeat it: it is a secret."""
    if value is not None and not (isinstance(value, str) and len(value) >= SHORTEST_TOKEN and value.isascii()):
        raise ValueError(f"give an ASCII text of {SHORTEST_TOKEN} characters or more, or None.")


def check_alerts(value: object) -> None:
    """The message does not repeat it: the address of a webhook is a secret."""
    receivers = value if isinstance(value, list | tuple) else [None]
    if not all(isinstance(each, str) and RECEIVER.fullmatch(each) for each in receivers):
        raise ValueError("give a list of mail addresses, and of webhooks that begin with https:// or http://.")


def check_keys(value: object) -> None:
    """The message does not repeat them: they are secrets."""
    if not is_list_of_texts(value):
        raise ValueError("give a list of keys, each made by cryptography.fernet.Fernet.generate_key().decode().")
    try:
        from cryptography.fernet import Fernet
    except ImportError:
        if value:
            raise ValueError("it needs cryptography: pip install 'django-tasks-retry[encryption]'.") from None
        return
    for number, key in enumerate(value, 1):  # type: ignore[arg-type, var-annotated]
        try:
            Fernet(key)
        except ValueError:
            raise ValueError(f"number {number} is no Fernet key, which is 32 bytes as URL-safe base64.") from None


def is_whole(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def is_list_of_texts(value: object) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)


def is_absolute(value: object) -> bool:
    return isinstance(value, str | PathLike) and Path(value).is_absolute()


def check_lanes(value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r:.60}: give a dictionary of limits by patterns, such as {{'tenant-*': …}}.")
    for pattern, limit in value.items():
        if not isinstance(pattern, str) or not pattern:
            raise ValueError(f"{pattern!r} is no pattern of lanes: give a text such as 'tenant-*' or 'queue:crm'.")
        try:
            read = read_limit(limit)
        except ValueError as error:
            raise ValueError(f"{pattern!r}: {error}") from None
        if read.failure_threshold is not None and pattern.startswith("queue:"):
            raise ValueError(f"{pattern!r}: a circuit breaker is for functions and lanes.")
        if pattern.startswith(RESERVED) and (read.order == "strict" or read.weight != 1.0):
            raise ValueError(f"{pattern!r}: order and weight are for lanes; limit a whole by concurrency and rate.")


def check_objectives(value: object) -> None:
    if not isinstance(value, Mapping):
        raise TypeError(f"{value!r:.60}: give a dictionary of times by queues, such as {{'emails': 60}}.")
    for queue, objective in value.items():
        check_timeout(in_seconds(objective), str(queue))


check_size = check(lambda value: is_whole(value, 1, 16 * 1024 * 1024), "bytes, at most 16 MiB")
check_retention = check(lambda value: value is None or value > 0, "seconds, or None to keep them for ever")
check_interval = check(lambda value: value is None or value > 0, "seconds, or None for no limit")

CHECKS: dict[str, Callable[[Any], Any]] = {
    "DATABASE": check_database,
    "SHARDS": check_shards,
    "CONSOLE_DATABASE": check_database,
    "LEASE": check(lambda value: 0.2 <= value <= DAY, "seconds, from 0.2 to a day"),
    "MAX_ATTEMPTS": check_max_attempts,
    "TIMEOUT": check_timeout,
    "TIMEOUT_GRACE": check_timeout,
    "ENQUEUE_TIMEOUT": check_interval,
    "MAX_ARGS_SIZE": check_size,
    "MAX_RESULT_SIZE": check_size,
    "PAYLOAD_KEYS": check_keys,
    "PAYLOAD_STORAGE": check(
        lambda value: value is None or value in settings.STORAGES, "an alias of STORAGES, or None"
    ),
    "OFFLOAD_SIZE": check_size,
    "KEEP_SUCCESS": check_retention,
    "KEEP_FAILED": check_retention,
    "KEEP_CANCELLED": check_retention,
    "EXPORT_TO": check(
        lambda value: value is None or is_absolute(value) or value in settings.STORAGES,
        "the absolute path of a folder, an alias of STORAGES, or None",
    ),
    "RELEASE": check(
        lambda value: isinstance(value, str) and len(value) <= MAX_RELEASE,
        f"a text of at most {MAX_RELEASE} characters, such as a tag or a commit",
    ),
    "ADMIN_EMAIL_INTERVAL": check_interval,
    "API_TOKEN_AGE": check(lambda value: value is None or value > 0, "seconds, or None for no API"),
    "DEPLOY_GUARD": check(lambda value: value in (None, "report", "pause"), "'report', 'pause', or None"),
    "TASK_MODULES": check(
        lambda value: (
            is_list_of_texts(value) and all(part.isidentifier() for name in value for part in name.split("."))
        ),
        "a list of modules, such as ['shop.receipts']",
    ),
    "MIDDLEWARE": check(is_list_of_texts, "a list of the paths of classes"),
    "METRICS_TOKEN": check_token,
    "ALERTS": check_alerts,
    "ATTEMPT_LOG_LINES": check(
        lambda value: is_whole(value, 0, MOST_LINES), f"a number of lines, at most {MOST_LINES}; 0 for none"
    ),
    "METRICS_PERMISSION": check(
        lambda value: value is None or (isinstance(value, str) and "." in value),
        "a permission such as 'django_tasks_retry.view_task', or None",
    ),
    "BACKLOG": read_backlogs,
    "SCHEDULES": check(lambda value: isinstance(value, Mapping), "a dictionary of schedules by their names"),
    "LANES": check_lanes,
    "OBJECTIVES": check_objectives,
    "OBJECTIVE_SHARE": check(lambda value: 0 < value < 1, "a share below one, such as 0.99"),
    "PRIORITY_AGING": check_interval,
}


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
