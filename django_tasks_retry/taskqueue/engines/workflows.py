"""What workflows need from each database: a step under the fence, and a page of the tasks that wait."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction

from ...clock import frozen, now
from ...models import Step
from ..database import fetch
from ..lease import Lease, as_uuid, leased_by
from .base import Waiting
from .statements import read_sql

REMEMBER = read_sql("remember")
OPEN_MEMBER = read_sql("open_member")
WAITING = """\
SELECT t.id, t.waits_for
FROM django_tasks_retry_task AS t
WHERE t.status = 'PENDING' AND t.waits_for IS NOT NULL AND {which}
ORDER BY t.waits_for, t.id
LIMIT %(limit)s\
"""
POSTGRESQL = {
    "batch": "substr(w.waits_for, 7, 36)::uuid",
    "first": f"'{UUID(int=0)}'::uuid",
    "last": f"'{UUID(int=2**128 - 1)}'::uuid",
}
SQLITE = {
    "batch": "replace(substr(w.waits_for, 7, 36), '-', '')",
    "first": f"'{UUID(int=0).hex}'",
    "last": f"'{UUID(int=2**128 - 1).hex}'",
}
SUSPENDED = read_sql("suspended", waiting=read_sql("suspended_page"), **POSTGRESQL)
SUSPENDED_SQLITE = read_sql(
    "suspended", waiting=WAITING.format(which="(t.waits_for, t.id) > (%(key)s, %(id)s)"), **SQLITE
)
AWAITING = read_sql("suspended", waiting=WAITING.format(which="t.waits_for = ANY (%(keys)s::text[])"), **POSTGRESQL)
AWAITING_SQLITE = read_sql(
    "suspended", waiting=WAITING.format(which="t.waits_for IN (SELECT value FROM json_each(%(keys)s))"), **SQLITE
)


class PostgreSQLWorkflows:
    using: str

    def remember(self, lease: Lease, name: str, kind: str, result: str) -> datetime | None:
        fence = {"id": lease.id, "worker": lease.locked_by, "attempt": lease.attempts}
        # JSON's null is SQL's NULL, as the ORM writes it.
        step = {"name": name, "kind": str(kind), "result": None if result == "null" else result}
        return next((row[0] for row in fetch(REMEMBER, fence | step, self.using)), None)

    def waiting_tasks(self, after: tuple[str, UUID], limit: int) -> list[Waiting]:
        rows = fetch(SUSPENDED, {"key": after[0], "id": after[1], "limit": limit}, self.using)
        return [Waiting(*row) for row in rows]

    def open_member(self, batch: UUID, after: UUID) -> UUID | None:
        rows = fetch(OPEN_MEMBER, {"batch": batch, "id": after}, self.using)
        return next((pk for found, pk in rows if found == batch), None)

    def waiting_for(self, keys: Sequence[str], limit: int) -> list[Waiting]:
        return [Waiting(*row) for row in fetch(AWAITING, {"keys": list(keys), "limit": limit}, self.using)]


class SQLiteWorkflows:
    using: str

    def remember(self, lease: Lease, name: str, kind: str, result: str) -> datetime | None:
        with transaction.atomic(using=self.using), frozen():
            if not leased_by(lease).exists():
                return None
            step = Step.objects.using(self.using).create(
                task_id=lease.id, name=name, kind=kind, attempt=lease.attempts, actor=lease.locked_by,
                ts=now(self.using), result=json.loads(result),
            )  # fmt: skip
        moment: datetime = step.ts
        return moment

    def waiting_tasks(self, after: tuple[str, UUID], limit: int) -> list[Waiting]:
        return self.waiting(SUSPENDED_SQLITE, {"key": after[0], "id": after[1].hex, "limit": limit})

    def waiting_for(self, keys: Sequence[str], limit: int) -> list[Waiting]:
        return self.waiting(AWAITING_SQLITE, {"keys": json.dumps(keys), "limit": limit})

    def open_member(self, batch: UUID, after: UUID) -> UUID | None:
        rows = fetch(OPEN_MEMBER, {"batch": batch.hex, "id": after.hex}, self.using)
        return next((as_uuid(pk) for found, pk in rows if as_uuid(found) == batch), None)

    def waiting(self, sql: str, parameters: dict[str, Any]) -> list[Waiting]:
        rows = fetch(sql, parameters, self.using)
        return [Waiting(as_uuid(pk), key, bool(is_ready)) for pk, key, is_ready in rows]
