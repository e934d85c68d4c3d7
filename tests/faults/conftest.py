from __future__ import annotations

import pytest

from tests.worker.conftest import (  # noqa: F401 - fixtures
    Start,
    effects,
    proxy,
    start_behind,
    start_on_server,
)


@pytest.fixture
def start(start_on_server: Start) -> Start:  # noqa: F811
    return start_on_server
