"""A queue whose history is partitioned, on a database of its own: what is laid out by one test is put back after it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_tasks_retry.taskqueue.retention.convert import partition_history, undo_partitioning
from django_tasks_retry.taskqueue.retention.layout import Period
from tests.conftest import LAYOUT
from tests.router import CurrentDatabase


@pytest.fixture(params=["postgresql"])
def on(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Only PostgreSQL has partitions."""
    monkeypatch.setattr(CurrentDatabase, "current", "postgresql")
    return "postgresql"


@pytest.fixture(autouse=True)
def archived_at_once() -> None:
    """Not here, whatever the layout of a run: these tests say themselves when tasks move."""


@pytest.fixture
def whole(committed: str) -> Iterator[str]:
    """PostgreSQL, not partitioned; whatever the test makes of it is put back."""
    undo_partitioning(committed)
    yield committed
    undo_partitioning(committed)
    if LAYOUT:
        partition_history(committed, Period.DAY, ["default"])


@pytest.fixture
def parted(whole: str) -> str:
    """With partitions from today on."""
    partition_history(whole, Period.DAY, ["default"])
    return whole
