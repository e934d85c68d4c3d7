"""The options of a worker's command line as one frozen value, and the names of workers."""

from __future__ import annotations

import os
import re
import secrets
import socket
from dataclasses import dataclass, replace
from typing import Any

OF_SUPERVISOR = 3  # connections: its own, the one that listens, and one for receivers of the signals that it sends
OF_CHILD = 4  # beside its threads: its own, one for coroutines, one for receivers of signals, one that wakes others
MOST_ALONE = 4  # children beside the others, each of which runs one task alone
SIZES = {"": 1, "K": 1024, "M": 1024**2, "G": 1024**3}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """Times are seconds, sizes are bytes."""

    backend: str = "default"
    queues: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    processes: int = 1
    threads: int = 8
    async_slots: int = 100
    drain: bool = False
    max_tasks: int | None = None
    max_time: float | None = None
    max_memory: int | None = None
    grace: float = 30.0
    poll: float = 1.0
    listen: bool = True
    reload: bool = False
    max_connections: int | None = None
    heartbeat_file: str | None = None
    name: str = ""
    only: Any = None  # the one task of a child that runs it alone; not an option of the command line

    @property
    def slots(self) -> int:
        return self.processes * (self.threads + self.async_slots)

    @property
    def all_threads(self) -> int:
        return self.processes * self.threads

    @property
    def connections(self) -> int:
        """The most that the worker opens to its database at once."""
        return self.beside + self.processes * (self.threads + OF_CHILD)

    @property
    def beside(self) -> int:
        """Connections of the supervisor, and of children that run one task alone."""
        return OF_SUPERVISOR + self.alone * (1 + OF_CHILD)

    @property
    def alone(self) -> int:
        """Return how many tasks at most run alone at the same time."""
        return min(self.processes, MOST_ALONE)

    def bounded(self) -> WorkerOptions:
        """Return options with as many threads as fit under `max_connections`. Raise ValueError if not even one does."""
        if self.max_connections is None:
            return self
        threads = (self.max_connections - self.beside) // self.processes - OF_CHILD
        if threads < 1:
            least = replace(self, threads=1).connections
            raise ValueError(
                f"--max-connections {self.max_connections} is not enough for --processes {self.processes}: "
                f"with one thread each they open up to {least}. Allow that many, or start fewer processes."
            )
        return replace(self, threads=min(self.threads, threads))


def read_size(text: str) -> int:
    """`512M 2G`; a bare number is bytes."""
    match = re.fullmatch(r"(\d+)([KMG]?)i?B?", text.strip(), re.IGNORECASE)
    if not match or int(match[1]) <= 0:
        raise ValueError(f"{text!r} is not a size. Write for example 512M or 2G.")
    return int(match[1]) * SIZES[match[2].upper()]


def read_count(text: str) -> int:
    if not text.strip().isdigit() or int(text) < 1:
        raise ValueError(f"{text!r} is not a whole number from 1 on.")
    return int(text)


def read_names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(",") if part.strip())
    bad = [name for name in names if not re.fullmatch(r"[\w.:*?\[\]-]{1,64}", name)]
    if bad or not names:
        raise ValueError(f"{text!r} is not a list of queues. Write for example emails,bulk*.")
    return names


# Names of workers: unique for each start, never used again. Host and pid are only labels in them.


def new_worker_id(name: str = "") -> str:
    label = re.sub(r"[^A-Za-z0-9_.-]", "-", name or socket.gethostname())[:40]
    return f"{label}-{os.getpid()}-{secrets.token_hex(6)}"


def child_id(supervisor: str, number: int) -> str:
    """A supervisor may speak for the workers whose names begin with its own."""
    return f"{supervisor}/{number}"
