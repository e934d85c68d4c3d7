"""A control group with little memory, where this machine lets us make one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from .harness import wait_for

PLACES = {Path("/sys/fs/cgroup/memory"): "memory.limit_in_bytes", Path("/sys/fs/cgroup"): "memory.max"}


@contextmanager
def little_memory(megabytes: int) -> Iterator[Path | None]:
    """The group's folder. None if groups cannot be made, or do not limit memory."""
    group, limit = next((made for place, name in PLACES.items() if (made := make(place, name))), (None, None))
    if group is None or limit is None:
        yield None
        return
    try:
        limit.write_text(str(megabytes * 1024 * 1024))
        yield group
    finally:
        wait_for(lambda: not (group / "cgroup.procs").read_text(encoding="utf-8"), "the end of the group's processes")
        group.rmdir()


def make(place: Path, name: str) -> tuple[Path, Path] | None:
    group = place / f"dtr-{uuid4().hex[:8]}"
    try:
        group.mkdir()
    except OSError:
        return None
    if (group / name).exists() and os.access(group / name, os.W_OK):
        return group, group / name
    group.rmdir()
    return None
