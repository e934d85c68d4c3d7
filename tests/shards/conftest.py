"""Three databases on the server of the tests, as the shards of one backend. Faults have servers of their own."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.core.management import call_command
from django.db import connections

from django_tasks_retry.models import ShardBucket
from django_tasks_retry.taskqueue.shards import answers, owners
from tests import cleaning, pg

NAMES = ["q0", "q1", "q2"]
GONE = "gone"


def add_database(alias: str, place: dict[str, Any]) -> None:
    settings = {"ENGINE": "django.db.backends.postgresql", "ATOMIC_REQUESTS": False, **place}
    django_settings.DATABASES[alias] = settings
    connections.settings[alias] = connections.configure_settings({alias: settings, "default": {}})[alias]


def execute(alias: str, *statements: str) -> None:
    with connections[alias].cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


@pytest.fixture(scope="package")
def databases(django_db_setup: None, django_db_blocker: Any) -> Any:
    place = pg.server()
    assert place is not None
    with django_db_blocker.unblock():
        add_database("maker", place)
        for alias in NAMES:
            execute("maker", f"DROP DATABASE IF EXISTS shard_{alias}")
        execute("maker", "CREATE DATABASE shard_q0")
        for alias in NAMES:
            add_database(alias, {**place, "NAME": f"shard_{alias}"})
        add_database(GONE, {**place, "PORT": str(pg.free_port())})
        call_command("migrate", database="q0", verbosity=0)
        connections["q0"].close()
        execute("maker", *(f"CREATE DATABASE shard_{alias} TEMPLATE shard_q0" for alias in NAMES[1:]))
        connections["maker"].close()
        yield NAMES
        for alias in [*NAMES, GONE, "maker"]:
            connections[alias].close()
            del connections[alias]
            django_settings.DATABASES.pop(alias, None)
            connections.settings.pop(alias, None)


@pytest.fixture
def sharded(databases: list[str], settings: Any, django_db_blocker: Any) -> Any:
    """Make the default backend one of three shards; call it with other names or OPTIONS for others."""

    def give(*names: str, **options: Any) -> None:
        wanted = {"SHARDS": list(names or NAMES), **options}
        settings.TASKS = {"default": {**settings.TASKS["default"], "QUEUES": [], "OPTIONS": wanted}}
        owners._known.clear()
        answers._probes.clear()

    with django_db_blocker.unblock():
        give()
        yield give
        cleaning.empty_tables(SimpleNamespace(_databases_names=lambda include_mirrors: NAMES))


def owner_of(key: str) -> str:
    return NAMES[ShardBucket.objects.using("q0").get(bucket=owners.hashed(key)).owner]


def key_of(alias: str, prefix: str = "key", queue: str = "") -> str:
    """Return a key whose bucket this shard owns."""
    owners.known_owners("default")
    begin = f"{queue}:" if queue else ""
    return next(key for key in (f"{prefix}-{n}" for n in range(100)) if owner_of(begin + key) == alias)
