"""The place of exported tasks, a folder or a storage of Django's, and how one of them is found there again."""

import errno
import gzip
import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from django.core.files import File
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages

from ...conf import options
from ...rules.names import time_of
from ..new_tasks import new_id
from .layout import partition_named

PERIOD = re.compile(r".+-(p\d{8}(?:_\d{2})?)(?:-\d+)?\.jsonl\.gz")
ROWS = re.compile(r".+-rows-(\d{8})(?:-([0-9a-f]{32})-([0-9a-f]{32})-[0-9a-f]{32})?\.jsonl")


class Archive:
    """A folder, which may be a share."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.drafts = folder

    def check(self) -> None:
        """Raise if it is missing. Created anew, it would hide a share that is not mounted."""
        if not self.folder.is_dir():
            raise FileNotFoundError(
                errno.ENOENT, "Tasks are exported to a folder that exists. Create or mount", str(self.folder)
            )

    def names(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def exists(self, name: str) -> bool:
        return (self.folder / name).exists()

    def open(self, name: str) -> BinaryIO:
        return (self.folder / name).open("rb")

    def publish(self, draft: Path, name: str) -> None:
        """Give a file of `drafts` its name, and flush it to the disk."""
        sync(draft)
        draft.rename(self.folder / name)
        sync(self.folder)

    def append(self, name: str, ids: list[UUID], lines: bytes) -> None:
        """Add lines to a file and their place to its index, in one piece each: lines of two writers do not mix."""
        with (self.folder / name).open("ab+", buffering=0) as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(end - 1, 0))
            # A writer that was killed leaves half a line.
            lines = lines if file.read(1) in (b"", b"\n") else b"\n" + lines
            if file.write(lines) != len(lines):
                file.truncate(end)
                raise OSError(errno.ENOSPC, f"{file.name} cannot hold {len(ids)} tasks more")
            os.fsync(file.fileno())
        entry = {"first": min(ids).hex, "last": max(ids).hex, "at": end, "size": len(lines)}
        with (self.folder / f"{name}.index").open("ab", buffering=0) as index:
            index.write(f"{json.dumps(entry)}\n".encode())


class Bucket(Archive):
    """A storage of the project's STORAGES. It cannot append, so each page of rows is a file of its own."""

    def __init__(self, alias: str) -> None:
        self.storage: Storage = storages[alias]
        self.folder, self.drafts = Path(alias), Path(tempfile.gettempdir())

    def check(self) -> None:
        pass

    def names(self) -> list[str]:
        return sorted(self.ask("listdir", "")[1])

    def exists(self, name: str) -> bool:
        return bool(self.ask("exists", name))

    def open(self, name: str) -> Any:
        return self.ask("open", name, "rb")

    def publish(self, draft: Path, name: str) -> None:
        with draft.open("rb") as file:
            self.save(name, File(file))
        draft.unlink()

    def append(self, name: str, ids: list[UUID], lines: bytes) -> None:
        stem = name.removesuffix(".jsonl")
        self.save(f"{stem}-{min(ids).hex}-{max(ids).hex}-{new_id().hex}.jsonl", ContentFile(lines))

    def save(self, name: str, file: "File[Any]") -> None:
        if (saved := self.ask("save", name, file)) != name:
            raise FileExistsError(errno.EEXIST, "Somebody else exports it, too", saved)

    def ask(self, verb: str, *given: Any) -> Any:
        """Storages raise the errors of their libraries, and nothing may be deleted after any of them."""
        try:
            return getattr(self.storage, verb)(*given)
        except OSError:
            raise
        except Exception as error:
            raise OSError(errno.EIO, f"{type(error).__name__}: {error}") from error


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)


def archive_of(backend: str) -> Archive | None:
    """Return the place that EXPORT_TO of this backend names."""
    chosen = str(options(backend).export_to or "")
    if not chosen:
        return None
    return Archive(Path(chosen)) if Path(chosen).is_absolute() else Bucket(chosen)


def find_exported(task_id: UUID, archive: Archive) -> dict[str, Any] | None:
    """Return a task as it was exported, with its result, events and steps."""
    key = str(task_id).encode()
    for name in archive.names():
        for lines in places(task_id, name, archive):
            for line in lines:
                # The ids of other tasks stand in a line, too; and a line may have been cut off.
                with suppress(ValueError):
                    if key in line and (found := json.loads(line))["task"]["id"] == str(task_id):
                        return dict(found)
    return None


def places(task_id: UUID, name: str, archive: Archive) -> Iterator[Iterable[bytes]]:
    """Yield the parts of a file that may hold this task."""
    made = time_of(task_id)
    if (found := PERIOD.fullmatch(name)) and (period := partition_named(found[1])):
        if period.start <= made < period.end:
            with archive.open(name) as file:
                yield page_of(task_id, name, file, archive)
    elif found := ROWS.fullmatch(name):
        # Hosts whose clocks differ wrote the id and the name.
        is_earlier = found[1] < f"{made - timedelta(days=1):%Y%m%d}"
        if not is_earlier and (found[2] is None or found[2] <= task_id.hex <= found[3]):
            yield from rows_of(task_id, name, archive)


def page_of(task_id: UUID, name: str, file: BinaryIO, archive: Archive) -> Iterable[bytes]:
    """Return the lines from the task's page on. The file beside this one says where each page begins."""
    with archive.open(f"{name}.json") as beside:
        file.seek(max((at for first, at in json.load(beside)["pages"] if first <= task_id.hex), default=0))
    return gzip.GzipFile(fileobj=file)


def rows_of(task_id: UUID, name: str, archive: Archive) -> Iterator[Iterable[bytes]]:
    """Yield the indexed pages that may hold it; all lines if the index does not tell of each."""
    entries: list[dict[str, Any]] = []
    with suppress(FileNotFoundError), archive.open(f"{name}.index") as index:
        entries = [json.loads(line) for line in index]
    with archive.open(name) as file:
        for entry in entries:
            if entry["first"] <= task_id.hex <= entry["last"]:
                file.seek(entry["at"])
                yield file.read(entry["size"]).splitlines()
        if sum(entry["size"] for entry in entries) != file.seek(0, os.SEEK_END):
            file.seek(0)
            yield file
