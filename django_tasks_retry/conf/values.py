"""Checks of the values of OPTIONS, one for each key."""

import re
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from django.conf import settings

from ..durations import in_seconds
from ..rules.lanes.limits import KEYS as LIMIT_KEYS
from ..rules.lanes.limits import read_limit
from ..rules.lanes.templates import RESERVED
from ..rules.names import NUMBERS
from ..rules.policy import check_max_attempts, check_timeout
from ..rules.queues import read_backlogs

DAY = 86400.0
MAX_RELEASE = 100
SHORTEST_TOKEN = 16
MOST_LINES = 1000
RECEIVER = re.compile(r"https?://[\w.:-]+(?:[/?][!-~]*)?|[^\s@:/]+@[^\s@:/]+", re.ASCII)
ENTRIES = {"BACKLOG": ("max_pending",), "LANES": LIMIT_KEYS}


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
