from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_tasks_retry.testing import Tasks
from tests.typed.tasks import seen


@pytest.fixture
def harness(database: str) -> Iterator[Tasks]:
    seen.clear()
    kit = Tasks()
    yield kit
    kit.close()
