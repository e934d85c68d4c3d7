"""Export of a whole period: one file, which has its name only once it is complete and on the disk."""

from __future__ import annotations

import gzip
import importlib
import os
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, Protocol
from uuid import UUID

from ...guard.conditions import TASK
from ..database import fetch_any
from ..engines.statements import read_sql
from ..operator.export import Export, Record
from .periods import Stretch

PAGE = 1000
NIL = UUID(int=0)
SQL = read_sql("export", source="{source}", which="t.id > %(after)s")


class Writer(Protocol):
    def write(self, records: Sequence[Record]) -> None: ...
    def close(self) -> None: ...


class Lines:
    """JSON lines, compressed."""

    suffix = "jsonl.gz"

    def __init__(self, path: Path) -> None:
        self.file = gzip.open(path, "wt", encoding="utf-8", compresslevel=3)  # noqa: SIM115 - closed when it is complete

    def write(self, records: Sequence[Record]) -> None:
        self.file.writelines(f"{record.text}\n" for record in records)

    def close(self) -> None:
        self.file.close()


class Parquet:
    """A column for each of what files are searched by, and one for all of it."""

    suffix = "parquet"

    def __init__(self, path: Path) -> None:
        self.arrow: Any = importlib.import_module("pyarrow")
        time = self.arrow.timestamp("us", tz="UTC")
        texts = [(name, self.arrow.string()) for name in ("id", "func_path", "queue", "status")]
        columns = [*texts, ("created_at", time), ("finished_at", time), ("record", self.arrow.string())]
        self.schema = self.arrow.schema(columns)
        self.file = importlib.import_module("pyarrow.parquet").ParquetWriter(path, self.schema, compression="zstd")

    def write(self, records: Sequence[Record]) -> None:
        columns = list(zip(*((str(record.id), *record[1:]) for record in records), strict=True))
        self.file.write_table(self.arrow.table([list(column) for column in columns], schema=self.schema))

    def close(self) -> None:
        self.file.close()


WRITERS: dict[str, type[Lines] | type[Parquet]] = {"jsonl": Lines, "parquet": Parquet}


def path_of(stretch: Stretch, export: Export, using: str) -> Path:
    return export.folder / f"{using}-{stretch.name}.{WRITERS[export.format].suffix}"


def export_pages(stretch: Stretch, export: Export, using: str) -> Iterator[int]:
    """How many tasks were written with each page. A period that was written before is not written again.

    One in which nothing succeeded leaves no file.
    """
    path, pages = path_of(stretch, export, using), read_pages(stretch, using)
    first = None if path.exists() else next(pages, None)
    if first is None:
        return
    export.folder.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.part")
    writer: Writer = WRITERS[export.format](part)
    try:
        for page in chain([first], pages):
            writer.write(page)
            yield len(page)
    finally:
        writer.close()
    put_in_place(part, path)


def read_pages(stretch: Stretch, using: str) -> Iterator[list[Record]]:
    sql, after = SQL.format(source=f"{TASK}_{stretch.name}"), NIL
    while page := [Record(*row) for row in fetch_any(sql, {"after": after, "size": PAGE}, using)]:
        yield page
        after = page[-1].id


def put_in_place(part: Path, path: Path) -> None:
    """On the disk, and only then under its name: a file that is there is whole."""
    sync(part)
    part.replace(path)
    sync(path.parent)


def sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
