from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.proxy import Proxy

from . import routes
from .harness import Effects, WorkerProcess, ended, environment, place_of
from .trouble import ALIAS, Server
from .warm import READ_AGAIN

Start = Callable[..., WorkerProcess]
numbers = count()
"""Outputs of the workers: a test may start workers in several ways."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "no_pooler(reason): not for the route through a pooler")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if routes.CHOSEN == "pgbouncer" and (mark := item.get_closest_marker("no_pooler")):
            item.add_marker(pytest.mark.skip(reason=mark.args[0]))


@pytest.fixture
def effects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Effects:
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    return Effects(tmp_path / "effects")


@pytest.fixture
def start(committed: str, tmp_path: Path) -> Iterator[Start]:
    """Starts workers on the database of the test: `start("--drain", lease=2.0)`. They end with it."""
    if routes.CHOSEN and committed != ALIAS:
        pytest.skip("a route leads to PostgreSQL")
    yield from starter(committed, tmp_path)


def starter(
    alias: str, folder: Path, place: routes.Place | None = None, route: routes.Route = routes.ROUTES[routes.CHOSEN]
) -> Iterator[Start]:
    workers: list[WorkerProcess] = []
    with route(alias, place or place_of(alias)) as reached:

        def start_one(
            *arguments: str, variables: dict[str, str] | None = None, popen: Any = None, **options: Any
        ) -> Any:
            if "--poll" not in arguments:
                arguments = ("--poll", "100ms", *arguments)
            given = {name.upper(): value for name, value in options.items()}
            env = environment(alias, folder, reached, given) | (variables or {})
            warm = not popen and READ_AGAIN.issuperset(variables or {}) and "--reload" not in arguments
            output = folder / f"worker{next(numbers)}"
            workers.append(WorkerProcess(arguments, output, env, warm=warm, **(popen or {})))
            return workers[-1]

        yield start_one
        for output in ended(workers):
            print(output)  # noqa: T201 - shown with a failure


# On the server that may be mistreated


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = server.proxy()
    yield proxy
    proxy.close()


@pytest.fixture
def start_on_server(server: Server, tmp_path: Path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, server.place())


@pytest.fixture
def start_behind(server: Server, proxy: Proxy, tmp_path: Path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, server.place(proxy.port))
