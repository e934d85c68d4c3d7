from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_tasks_retry.pytest_plugin import tasks
from tests.backend import samples

__all__ = ["tasks"]


@pytest.fixture
def seen() -> Iterator[list[Any]]:
    samples.SEEN.clear()
    yield samples.SEEN
    samples.SEEN.clear()
