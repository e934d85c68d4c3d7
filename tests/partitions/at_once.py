"""History that follows its tasks at once, so that every test which reads a finished task reads it there."""

from __future__ import annotations

from typing import Any

import pytest

from django_tasks_retry.taskqueue.engines.postgresql import PostgreSQL
from django_tasks_retry.taskqueue.retention import maintain
from django_tasks_retry.taskqueue.retention.layout import read_layout


def archive_now(using: str) -> int:
    layout = read_layout(using)
    return sum(maintain.archive_pages(layout, using)) if layout else 0


def archive_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """After each report. The age that workers let it reach is no part of what is promised."""
    record = PostgreSQL.record

    def record_and_archive(self: PostgreSQL, *args: Any, **options: Any) -> Any:
        answer = record(self, *args, **options)
        archive_now(self.using)
        return answer

    monkeypatch.setattr(maintain, "SETTLED_SECONDS", -1.0)
    monkeypatch.setattr(PostgreSQL, "record", record_and_archive)
