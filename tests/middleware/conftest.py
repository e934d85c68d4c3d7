from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_tasks_retry.pytest_plugin import tasks
from tests.middleware import samples

__all__ = ["tasks"]


@pytest.fixture
def told() -> Iterator[list[object]]:
    samples.TOLD.clear()
    yield samples.TOLD
    samples.TOLD.clear()
