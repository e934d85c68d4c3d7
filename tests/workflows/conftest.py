from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_tasks_retry.testing import Tasks
from tests.workflows import tasks


@pytest.fixture(autouse=True)
def no_calls() -> None:
    tasks.calls.clear()


@pytest.fixture
def harness(database: str) -> Iterator[Tasks]:
    """Runs whole graphs inside the test's transaction."""
    kit = Tasks()
    yield kit
    kit.close()
