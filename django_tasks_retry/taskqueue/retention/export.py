"""Export: write tasks to files before retention deletes them, row by row or a partition at a time."""

import errno
import gzip
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import blake2b, file_digest
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any
from uuid import UUID

from ...clock import now
from ...conf import options
from ...rules.names import NIL
from ..database import fetch_any
from ..engines import engine_for
from ..engines.statements import read_sql
from ..new_tasks import new_id
from .layout import Partition, read_layout

PAGE = 1000
BY_PARTITION = read_sql("export_partition")


def export_folder(backend: str) -> Path | None:
    """The folder that EXPORT_TO of this backend names."""
    chosen = options(backend).export_to
    return Path(chosen) if chosen else None


def export_tasks(ids: Sequence[UUID], folder: Path, moment: datetime, using: str) -> None:
    """Append tasks that are about to be deleted to the day's file, and flush it to the disk.

    If the deletion then fails, the next pruning writes them once more.
    """
    check_folder(folder)
    lines = "".join(f"{text}\n" for text in engine_for(using).export(ids)).encode()
    with (folder / f"{label_of(using)}-rows-{moment:%Y%m%d}.jsonl").open("ab+", buffering=0) as file:
        end = file.seek(0, os.SEEK_END)
        file.seek(max(end - 1, 0))
        # A writer that was killed leaves half a line.
        lines = lines if file.read(1) in (b"", b"\n") else b"\n" + lines
        # In one piece, so that lines of two writers do not mix.
        if file.write(lines) != len(lines):
            file.truncate(end)
            raise OSError(errno.ENOSPC, f"{file.name} cannot hold {len(ids)} tasks more")
        os.fsync(file.fileno())


def check_folder(folder: Path) -> None:
    """Raise if it is missing. Created anew, it would hide a share that is not mounted."""
    if not folder.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, "Tasks are exported to a folder that exists. Create or mount", str(folder)
        )


def label_of(using: str) -> str:
    """Return how file names call a database: services that share a folder may give theirs the same alias."""
    return f"{using}-{blake2b(engine_for(using).identity().encode(), digest_size=4).hexdigest()}"


@dataclass(slots=True)
class PeriodExport:
    """One partition as a file, with a second file beside it that says what it holds, once it is whole."""

    partition: Partition
    folder: Path
    using: str
    path: Path | None = None
    rows: int = 0
    is_over: bool = False
    """Whether no task of the period could end after it was written."""

    def pages(self) -> Iterator[int]:
        """Write the file, and yield the size of each page. An empty partition leaves no file."""
        self.is_over = now(self.using) >= self.partition.end + self.partition.period.length
        pages = self.read_pages()
        first = next(pages, None)
        if first is None:
            return
        part = self.new_part()
        try:
            with gzip.open(part, "xt", encoding="utf-8", compresslevel=3) as file:
                for page in chain([first], pages):
                    file.writelines(f"{text}\n" for _id, text in page)
                    self.rows += len(page)
                    yield len(page)
            self.publish(part)
        finally:
            part.unlink(missing_ok=True)

    @property
    def name(self) -> str:
        return f"{label_of(self.using)}-{self.partition.name}"

    def new_part(self) -> Path:
        """Return the file to write to. Those of this period that a killed writer left are removed.

        A writer that is alive loses its file too. It cannot publish it then, and drops nothing.
        """
        check_folder(self.folder)
        start = f".{self.name}-"
        for path in list(self.folder.iterdir()):
            if path.name.startswith(start) and path.name.endswith(".part"):
                path.unlink(missing_ok=True)
        return self.folder / f"{start}{new_id()}.part"

    def read_pages(self) -> Iterator[list[tuple[UUID, str]]]:
        sql, after = BY_PARTITION.format(archive=self.partition.archive), NIL
        while page := fetch_any(sql, {"after": after, "size": PAGE}, self.using):
            yield page
            after = page[-1][0]

    def publish(self, part: Path) -> None:
        """Flush the file, name it, and say then that it is whole. No earlier file is replaced."""
        sync(part)
        self.path = next(path for path in self.paths() if not path.exists())
        record = {**self.origin(), "rows": self.rows, "is_over": self.is_over, "sha256": digest(part)}
        part.rename(self.path)
        part.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        sync(part)
        part.rename(beside(self.path))
        sync(self.folder)

    def paths(self) -> Iterator[Path]:
        name = self.name
        yield self.folder / f"{name}.jsonl.gz"
        yield from (self.folder / f"{name}-{number}.jsonl.gz" for number in count(2))

    def origin(self) -> dict[str, Any]:
        """Return what the file is of, as the second file says it."""
        layout = read_layout(self.using)
        return {
            "database": label_of(self.using),
            "backends": list(layout.backends) if layout else [],
            "period": self.partition.name,
            "from": self.partition.start.isoformat(),
            "until": self.partition.end.isoformat(),
        }

    def is_whole(self, rows: int) -> bool:
        """Whether a file holds the whole period: so many rows, once no more could come."""
        wanted = {**self.origin(), "rows": rows, "is_over": True}
        return any(holds(path, wanted) for path in takewhile(Path.exists, self.paths()))

    def count(self) -> int:
        return int(fetch_any(f"SELECT count(*) FROM {self.partition.archive}", {}, self.using)[0][0])


def beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def holds(path: Path, wanted: Mapping[str, Any]) -> bool:
    """Whether the file beside it says so. There is none if the writer did not come to its end."""
    try:
        record = json.loads(beside(path).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return False
    return isinstance(record, dict) and record.items() >= {**wanted, "sha256": digest(path)}.items()


def digest(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
