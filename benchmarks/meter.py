"""Resources that processes use, read from /proc."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")


def stat(pid: int) -> list[int]:
    """The numbers of /proc/<pid>/stat, counted as its manual does less one; none for a process that is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return [0] * 52
    return [pid, 0, 0, *(int(field) for field in text.rpartition(")")[2].split()[1:])]


def children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def family(pid: int) -> list[int]:
    """A process, its children and theirs."""
    return [pid, *(member for child in children(pid) for member in family(child))]


def cpu(pid: int) -> float:
    """Seconds of CPU of a process and of all that came from it, alive or gone."""
    return sum(sum(stat(member)[13:17]) for member in family(pid)) / TICKS


def largest(pid: int) -> float:
    """Megabytes resident in the largest of a family."""
    return max(map(megabytes, family(pid)))


def largest_child(pid: int) -> float:
    """The same of those that do the work, where one process only looks after others."""
    return max(map(megabytes, family(pid)[1:]), default=megabytes(pid))


def megabytes(pid: int) -> float:
    return stat(pid)[23] * PAGE / 2**20


def machine() -> tuple[float, float]:
    """Seconds that all cores were busy since the machine was started, and all their seconds."""
    spent = [int(field) for field in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    idle, waiting = spent[3:5]
    return (sum(spent) - idle - waiting) / TICKS, sum(spent) / TICKS


class Noise:
    """The share of the machine that others use from now on; the server, as a child of this process, is no other."""

    def __init__(self) -> None:
        self.began = self.read()

    def read(self) -> tuple[float, float]:
        busy, whole = machine()
        return busy - cpu(os.getpid()), whole

    @property
    def share(self) -> float:
        (foreign, whole), (before, earlier) = self.read(), self.began
        return max(0.0, foreign - before) / max(whole - earlier, 1 / TICKS)


@dataclass(frozen=True, kw_only=True)
class Drained:
    """The cost of a drain. CPU in seconds and WAL in bytes are those of all its tasks."""

    tasks: int
    seconds: float
    worker_cpu: float
    server_cpu: float
    wal: int
    rss: float

    @property
    def rate(self) -> float:
        return self.tasks / self.seconds

    def __str__(self) -> str:
        thousands = self.tasks / 1000
        return (
            f"{self.rate:,.0f}/s, CPU per 1,000 {self.worker_cpu / thousands:.3f} s + "
            f"{self.server_cpu / thousands:.3f} s, WAL {self.wal / self.tasks:,.0f} B, RSS {self.rss:.0f} MB"
        )
