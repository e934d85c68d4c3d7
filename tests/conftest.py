from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings as django_settings

from django_tasks_retry import clock
from django_tasks_retry.taskqueue.partitions.convert import partition
from django_tasks_retry.taskqueue.partitions.periods import Period
from tests import pg
from tests.faults.marker import pytest_configure, pytest_generate_tests, pytest_itemcollected  # noqa: F401
from tests.partitions.at_once import archive_at_once
from tests.router import CurrentDatabase
from tests.worker.trouble import Server

SLOW_ROOMS = ("soak", "mutants", "faults", "worker", "admin")
MIRRORS = {
    "rules",
    "taskqueue",
    "contract",
    "guard",
    "scenarios",
    "backend",
    "testing",
    "admin",
    "middleware",
    "metrics",
    "contrib",
    "selection",
    "cli",
    "verify",
}
"""The rooms that coverage is asked of. The others repeat what these do, and measuring them would take long."""
LAYOUT = os.environ.get("LAYOUT", "")
"""`LAYOUT=partitioned pytest tests/contract` runs it on PostgreSQL with history in partitions."""
ALIASES = {"sqlite": "default", "postgresql": "postgresql"}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes() -> None:
    """Each process of a parallel run has a server and a folder of its own: roles, for one, belong to a whole server."""
    for name in ("TEST_POSTGRESQL", "TEST_SQLITE_FOLDER"):
        os.environ.pop(name, None)
    pg.dismiss_keepers()


def pytest_unconfigure() -> None:
    shutil.rmtree(django_settings.SQLITE_FOLDER, ignore_errors=True)
    pg.dismiss_keepers()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):
        # Many quick files at the end keep all processes of a parallel run busy until then.
        items.sort(key=lambda item: [room not in item.path.parts for room in SLOW_ROOMS])
    for item in items:
        if MIRRORS.isdisjoint(item.path.parts):
            item.add_marker(pytest.mark.no_cover)
        if LAYOUT and item.get_closest_marker("plain_layout"):
            item.add_marker(pytest.mark.skip(reason="about tables that are not partitioned"))
        fixtures = getattr(item, "fixturenames", ())
        if "committed" in fixtures:
            item.add_marker(pytest.mark.django_db(transaction=True, databases=list(ALIASES.values())))
        elif "database" in fixtures:
            item.add_marker(pytest.mark.django_db(databases=list(ALIASES.values())))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    if LAYOUT:
        with django_db_blocker.unblock():
            partition("postgresql", Period.DAY, ["default"])


@pytest.fixture(autouse=bool(LAYOUT))
def archived_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where history is partitioned, what succeeds is moved to it before the next statement of the test."""
    archive_at_once(monkeypatch)


@pytest.fixture(params=sorted(ALIASES))
def on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The alias of the database that the test is about. Every test of the queue runs on each."""
    alias = ALIASES[request.param]
    monkeypatch.setattr(CurrentDatabase, "current", alias)
    return alias


@pytest.fixture
def database(on: str, db: None) -> Iterator[str]:
    """`on`, inside a transaction that is rolled back."""
    yield on
    clock.shift(timedelta(0), on)


@pytest.fixture
def committed(on: str, transactional_db: None) -> Iterator[str]:
    """`on`, with real commits, for tests with several connections or processes."""
    yield on
    clock.shift(timedelta(0), on)


@pytest.fixture
def travel(on: str) -> Callable[[float], None]:
    """Move the queue's clock forward by seconds."""
    gone = timedelta(0)

    def forward(seconds: float) -> None:
        nonlocal gone
        gone += timedelta(seconds=seconds)
        clock.shift(gone, on)

    return forward


@pytest.fixture
def configure(settings: Any) -> Callable[..., None]:
    """Give the default backend these OPTIONS for the length of the test."""

    def give(**options: Any) -> None:
        settings.TASKS = {"default": {**settings.TASKS["default"], "OPTIONS": options}}

    return give


@pytest.fixture(scope="session")
def spare_server() -> Iterator[Server]:
    server = Server()
    yield server
    server.remove()


@pytest.fixture
def server(spare_server: Server, django_db_blocker: Any) -> Iterator[Server]:
    """A PostgreSQL server that the test may mistreat, and that the alias `postgresql` points at meanwhile."""
    with django_db_blocker.unblock(), spare_server.in_use():
        spare_server.clean()
        yield spare_server
