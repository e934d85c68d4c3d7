"""The journal: each execution appends its own start and end to a file, so that nobody takes the queue's word for it."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from django_tasks_retry.taskqueue import Lease


@dataclass(frozen=True, slots=True)
class Line:
    """`at` is a reading of the monotonic clock of the host, which no skewed wall clock touches."""

    at: float
    word: str
    attempt: int
    worker: str
    pid: int


def write(word: str, lease: Lease) -> None:
    """One line, in one write: lines of many processes do not mix."""
    line = f"{word} {lease.id} {lease.attempts} {lease.locked_by} {os.getpid()} {time.monotonic()}\n"
    descriptor = os.open(os.environ["SOAK_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def read(file: Path) -> dict[UUID, list[Line]]:
    lines: dict[UUID, list[Line]] = defaultdict(list)
    for text in file.read_text(encoding="utf-8").splitlines() if file.exists() else ():
        word, task, attempt, worker, pid, at = text.split()
        lines[UUID(task)].append(Line(float(at), word, int(attempt), worker, int(pid)))
    return lines
