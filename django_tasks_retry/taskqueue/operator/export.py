"""Export: what retention forgets, written to files first, a page at a time."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from django.core.serializers.json import DjangoJSONEncoder

from ...conf import options
from ...models import Step, Task, TaskEvent, TaskResult
from ..database import as_array, fetch_any, is_postgresql
from ..engines.statements import read_sql

BY_IDS = read_sql("export", source="django_tasks_retry_task", which="t.id = ANY (%(ids)s::uuid[])")


class Record(NamedTuple):
    """One task: what files are searched by, and all of it as a JSON text."""

    id: UUID
    func_path: str
    queue: str
    status: str
    created_at: datetime
    finished_at: datetime | None
    text: str


@dataclass(frozen=True, slots=True)
class Export:
    folder: Path
    format: str = "jsonl"


def export_of(backend: str) -> Export | None:
    """Where the backend's options want its history written before it goes."""
    chosen = options(backend)
    return Export(Path(chosen.export_to), chosen.export_as) if chosen.export_to else None


def export_tasks(ids: Sequence[UUID], export: Export, moment: datetime, using: str) -> None:
    """Tasks that are about to be deleted by rows: lines at the end of the day's file, on the disk when this returns.

    Where the deletion then fails, they are written once more the next time.
    """
    export.folder.mkdir(parents=True, exist_ok=True)
    with (export.folder / f"{using}-rows-{moment:%Y%m%d}.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(f"{text}\n" for text in texts_of(ids, using))
        file.flush()
        os.fsync(file.fileno())


def texts_of(ids: Sequence[UUID], using: str) -> list[str]:
    if is_postgresql(using):
        asked = {"ids": as_array(ids), "size": len(ids)}
        return [row[-1] for row in fetch_any(BY_IDS, asked, using)]
    return [json.dumps(each, cls=DjangoJSONEncoder) for each in read_whole(ids, using)]


def read_whole(ids: Sequence[UUID], using: str) -> list[Mapping[str, Any]]:
    tasks = Task.objects.using(using).filter(pk__in=ids).order_by("pk").values()
    results = {row["task_id"]: row for row in TaskResult.objects.using(using).filter(pk__in=ids).values()}
    told: dict[str, dict[UUID, list[Any]]] = {"events": defaultdict(list), "steps": defaultdict(list)}
    for name, model in (("events", TaskEvent), ("steps", Step)):
        for row in model._default_manager.using(using).filter(task_id__in=ids).order_by("id").values():
            told[name][row["task_id"]].append(row)
    return [
        {
            "task": task,
            "result": results.get(task["id"]),
            "events": told["events"][task["id"]],
            "steps": told["steps"][task["id"]],
        }
        for task in tasks
    ]
