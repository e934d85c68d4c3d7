"""The pytest plugin: the fixture `tasks`. Imports nothing of Django before a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .testing import Tasks


@pytest.fixture
def tasks(db: None) -> Iterator[Tasks]:
    """Runs, moves and asks about tasks inside this test. See `django_tasks_retry.testing.Tasks`."""
    from .testing import Tasks

    harness = Tasks()
    yield harness
    harness.close()
