"""What workflows need from each database: a step under the fence, and a page of the tasks that wait."""

from __future__ import annotations

import json
from datetime import datetime
from uuid import UUID

from django.db import transaction

from ...clock import frozen, now
from ...models import Step
from ..database import fetch
from ..lease import Lease, as_uuid, leased_by
from .base import Waiting
from .statements import read_sql

REMEMBER = read_sql("remember")
SUSPENDED = read_sql("suspended", batch="substr(w.waits_for, 7, 36)::uuid")
SUSPENDED_SQLITE = read_sql("suspended", batch="replace(substr(w.waits_for, 7, 36), '-', '')")


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
        rows = fetch(SUSPENDED_SQLITE, {"key": after[0], "id": after[1].hex, "limit": limit}, self.using)
        return [Waiting(as_uuid(pk), key, bool(is_ready)) for pk, key, is_ready in rows]
