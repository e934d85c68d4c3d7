"""Export: write tasks to files before retention deletes them, row by row or a partition at a time."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b, file_digest
from itertools import chain, count, takewhile
from pathlib import Path
from typing import Any
from uuid import UUID

from ...clock import now
from ...rules.names import NIL
from ..database import fetch_any
from ..engines import engine_for
from ..engines.statements import read_sql
from ..new_tasks import new_id
from .archive import Archive
from .layout import Partition, read_layout

PAGE = 1000
BY_PARTITION = read_sql("export_partition")


def export_tasks(ids: Sequence[UUID], archive: Archive, moment: datetime, using: str) -> None:
    """Append tasks that are about to be deleted to the day's file, and flush it to the disk.

    If the deletion then fails, the next pruning writes them once more.
    """
    archive.check()
    lines = "".join(f"{text}\n" for text in engine_for(using).export(ids)).encode()
    if ids:
        archive.append(f"{label_of(using)}-rows-{moment:%Y%m%d}.jsonl", list(ids), lines)


def label_of(using: str) -> str:
    """Return how file names call a database: services that share a folder may give theirs the same alias."""
    return f"{using}-{blake2b(engine_for(using).identity().encode(), digest_size=4).hexdigest()}"


@dataclass(slots=True)
class PeriodExport:
    """One partition as a file, with a second file beside it that says what it holds, once it is whole."""

    partition: Partition
    archive: Archive
    using: str
    file: str = ""
    rows: int = 0
    starts: list[tuple[str, int]] = field(default_factory=list)
    """The first id of each page, and where the page begins: each is compressed by itself."""

    is_over: bool = False  # whether no task of the period could end after it was written

    def pages(self) -> Iterator[int]:
        """Write the file, and yield the size of each page. An empty partition leaves no file."""
        self.is_over = now(self.using) >= self.partition.end + self.partition.period.length
        pages = self.read_pages()
        first = next(pages, None)
        if first is None:
            return
        part = self.new_part()
        try:
            with part.open("xb") as file:
                for page in chain([first], pages):
                    self.starts.append((page[0][0].hex, file.tell()))
                    file.write(gzip.compress("".join(f"{text}\n" for _id, text in page).encode(), compresslevel=3))
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
        self.archive.check()
        start = f".{self.name}-"
        for path in list(self.archive.drafts.iterdir()):
            if path.name.startswith(start) and path.name.endswith(".part"):
                path.unlink(missing_ok=True)
        return self.archive.drafts / f"{start}{new_id()}.part"

    def read_pages(self) -> Iterator[list[tuple[UUID, str]]]:
        sql, after = BY_PARTITION.format(archive=self.partition.archive), NIL
        while page := fetch_any(sql, {"after": after, "size": PAGE}, self.using):
            yield page
            after = page[-1][0]

    def publish(self, part: Path) -> None:
        """Name the file, and say then that it is whole. No earlier file is replaced."""
        self.file = next(name for name in self.names() if not self.archive.exists(name))
        with part.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
        record = {**self.origin(), "rows": self.rows, "is_over": self.is_over, "sha256": digest, "pages": self.starts}
        self.archive.publish(part, self.file)
        part.write_text(json.dumps(record) + "\n", encoding="utf-8")
        self.archive.publish(part, f"{self.file}.json")

    def names(self) -> Iterator[str]:
        yield f"{self.name}.jsonl.gz"
        yield from (f"{self.name}-{number}.jsonl.gz" for number in count(2))

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
        return any(holds(name, wanted, self.archive) for name in takewhile(self.archive.exists, self.names()))

    def count(self) -> int:
        return int(fetch_any(f"SELECT count(*) FROM {self.partition.archive}", {}, self.using)[0][0])


def holds(name: str, wanted: Mapping[str, Any], archive: Archive) -> bool:
    """Whether the file beside it says so. There is none if the writer did not come to its end."""
    try:
        with archive.open(f"{name}.json") as beside:
            record = json.load(beside)
    except (FileNotFoundError, ValueError):
        return False
    with archive.open(name) as file:
        digest = file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type]
    return isinstance(record, dict) and record.items() >= {**wanted, "sha256": digest}.items()
