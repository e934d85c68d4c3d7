"""The files of tasks that are pruned: found before their rows are deleted, and deleted after.

Tasks that are exported keep theirs: the exported row names them.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TypeAlias
from uuid import UUID

from django.db import transaction
from django.db.models import TextField
from django.db.models.functions import Cast

from ...conf import options
from ...guard.conditions import RESULT
from ...models import Task, TaskResult
from ...payloads import PAYLOAD, delete_files, files_of
from ..database import fetch
from .archive import Archive
from .layout import Partition

IN_ARCHIVE = f"""
SELECT t.backend, t.id, t.kwargs::text, r.result::text
FROM {{archive}} AS t JOIN {RESULT} AS r ON r.task_id = t.id
WHERE t.kwargs ? '{PAYLOAD}' OR r.result ? '{PAYLOAD}'
"""
Files: TypeAlias = dict[str, dict[str, UUID]]  # by backend and name, the tasks that they belong to


def files_in_rows(ids: Sequence[UUID], backend: str, using: str, export: Archive | None) -> Files:
    """Return the files of these tasks, by the texts of columns: in a damaged row these may be no JSON."""
    if export is not None or options(backend).payload_storage is None:
        return {}
    found: dict[str, UUID] = {}
    for model, key, column in ((Task, "pk", "kwargs"), (TaskResult, "task_id", "result")):
        rows = model._base_manager.using(using).filter(pk__in=ids).annotate(text=Cast(column, TextField()))
        found |= files_of(rows.filter(text__contains=f'"{PAYLOAD}"').values_list(key, "text"))
    return {backend: found}


def files_in_archive(partition: Partition, backends: Iterable[str], using: str, export: Archive | None) -> Files:
    """Return the files of a whole partition."""
    stores = [backend for backend in backends if options(backend).payload_storage is not None]
    rows = fetch(IN_ARCHIVE.format(archive=partition.archive), {}, using) if stores and export is None else []
    of = {backend: [row for row in rows if row[0] == backend] for backend in stores}
    return {backend: files_of((row[1], text) for row in of[backend] for text in row[2:]) for backend in stores}


def delete_with_tasks(files: Files, using: str) -> None:
    """Delete those files whose task is gone, after the commit."""
    for backend, owners in files.items():
        left = set(Task.objects.using(using).filter(pk__in=set(owners.values())).values_list("pk", flat=True))
        gone = [file for file, task_id in owners.items() if task_id not in left]
        transaction.on_commit(partial(delete_files, gone, backend), using)
