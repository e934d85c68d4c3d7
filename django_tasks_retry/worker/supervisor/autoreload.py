"""Notices that code has changed, for development: the worker drains and starts anew."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from django.utils.autoreload import get_child_arguments, iter_all_python_module_files

from ..shared.timer import Every


class Autoreloader:
    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self.looking = Every(1.0)
        self.times: dict[Path, float] = {}
        self.must_restart = False

    def changed_file(self) -> Path | None:
        """The first file found changed since the last look."""
        if not self.wanted or not self.looking.is_due():
            return None
        times = {path: modified(path) for path in iter_all_python_module_files()}
        before, self.times = self.times, times
        return next((path for path, time in times.items() if before and before.get(path, time) != time), None)


def modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def restart() -> None:
    """Replace this process by a new one with the same arguments."""
    arguments = get_child_arguments()
    os.execv(sys.executable, arguments)  # noqa: S606 - our own command line
