"""When a worker could not run for want of a processor: what it lost then was the host's fault, not a neighbour's."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

TURN_SECONDS, WINDOW_SECONDS = 0.1, 1.0
STALLED_SHARE = 0.25


def waited_seconds(pid: int) -> float:
    """How long the kernel has kept this process waiting for a processor, in all. Not every kernel tells."""
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[1]) / 1e9
    return 0.0


@dataclass(slots=True)
class Stalls:
    """Watches supervisors from a thread of its own; `found` are the windows in which one of them stood still."""

    lease: float
    pids: Callable[[], Sequence[int]]
    found: list[tuple[float, float]] = field(default_factory=list)
    is_over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Stalls:
        threading.Thread(target=self.watch, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()

    def watch(self) -> None:
        readings: deque[tuple[float, dict[int, float]]] = deque()
        while not self.is_over.wait(TURN_SECONDS):
            readings.append((time.monotonic(), {pid: waited_seconds(pid) for pid in self.pids()}))
            while readings[-1][0] - readings[0][0] > WINDOW_SECONDS:
                readings.popleft()
            self.note(*readings[0], *readings[-1])

    def note(self, began: float, before: dict[int, float], ended: float, now: dict[int, float]) -> None:
        if any(now[pid] - before.get(pid, now[pid]) > self.lease * STALLED_SHARE for pid in now):
            self.found.append((began, ended))
