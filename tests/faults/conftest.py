from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.proxy import Proxy
from tests.worker.conftest import Start, effects, starter  # noqa: F401 - a fixture
from tests.worker.trouble import ALIAS, Server


@pytest.fixture(scope="module")
def running_server(django_db_blocker) -> Iterator[Server]:
    """A PostgreSQL server of the module's own, to be mistreated."""
    with django_db_blocker.unblock():
        server = Server()
        with server.in_use():
            yield server


@pytest.fixture
def server(running_server: Server) -> Server:
    running_server.clean()
    return running_server


@pytest.fixture
def proxy(server: Server) -> Iterator[Proxy]:
    proxy = server.proxy()
    yield proxy
    proxy.close()


@pytest.fixture
def start(server: Server, tmp_path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, server.place())


@pytest.fixture
def start_behind(server: Server, proxy: Proxy, tmp_path) -> Iterator[Start]:
    yield from starter(ALIAS, tmp_path, server.place(proxy.port))
