"""Notices that code has changed, for development: the worker drains and restarts, once the code can be loaded."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import sleep

from django.utils.autoreload import get_child_arguments, iter_all_python_module_files

from ... import registry
from ..logs import indented
from ..shared.timer import Every

logger = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
LAST_LINES = 8


class Autoreloader:
    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self.looking = Every(LOOK_SECONDS)
        self.times: dict[Path, float] = {}
        self.must_restart = False

    def changed_file(self) -> Path | None:
        """The first file found changed since the last look."""
        if not self.wanted or not self.looking.is_due():
            return None
        times = {path: modified(path) for path in iter_all_python_module_files()}
        before, self.times = self.times, times
        return next((path for path, time in times.items() if before and before.get(path, time) != time), None)

    def restart(self, asks_to_stop: Callable[[], bool]) -> None:
        """Replace this process by a new one with the same arguments. Code that cannot be loaded is waited for."""
        while (error := loading_error()) and not asks_to_stop():
            logger.error("the code cannot be loaded; mend it, and the worker restarts:\n%s", indented(error))
            while self.changed_file() is None and not asks_to_stop():
                sleep(LOOK_SECONDS / 10)
        if not asks_to_stop():
            os.execv(sys.executable, get_child_arguments())  # noqa: S606 - our own command line


def modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


LOAD = """
import sys, django
django.setup()
from django_tasks_retry import registry
registry.discover()
broken = {name: why for name, why in registry.unimportable().items() if name not in sys.argv[1:]}
sys.exit("\\n".join(f"{name}: {why}" for name, why in broken.items()) or None)
"""


def loading_error() -> str:
    """What a new process says that only loads the project; empty where it can, or could no better before."""
    variables = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", LOAD, *registry.unimportable()]
    loaded = subprocess.run(command, env=variables, capture_output=True, text=True, check=False)  # noqa: S603
    return "\n".join(loaded.stderr.splitlines()[-LAST_LINES:]) if loaded.returncode else ""
