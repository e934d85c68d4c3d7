"""New code: the worker drains and restarts in the same process, once the code can be loaded.

In development it notices changed files by itself; in production it is told to by SIGHUP.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from time import sleep
from typing import IO

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
        self.trial: subprocess.Popen[str] | None = None
        self.said: IO[str] | None = None

    def changed_file(self) -> Path | None:
        """The first file found changed since the last look."""
        if not self.wanted or not self.looking.is_due():
            return None
        times = {path: modified(path) for path in iter_all_python_module_files()}
        before, self.times = self.times, times
        return next((path for path, time in times.items() if before and before.get(path, time) != time), None)

    def restart(self, asks_to_stop: Callable[[], bool]) -> None:
        """Replace this process by a new one with the same arguments. Code that cannot be loaded is waited for."""
        while self.wanted and (error := loading_error()) and not asks_to_stop():
            logger.error("the code cannot be loaded; mend it, and the worker restarts:\n%s", error)
            while self.changed_file() is None and not asks_to_stop():
                sleep(LOOK_SECONDS / 10)
        if not asks_to_stop():
            os.execv(sys.executable, get_child_arguments())  # noqa: S606 - our own command line

    def try_code(self) -> None:
        """Load the project in a process of its own, beside the work: SIGHUP asks for the code as it is now."""
        if self.trial is None:
            self.said = tempfile.TemporaryFile("w+")  # noqa: SIM115 - closed when the trial has ended
            self.trial = subprocess.Popen(load_command(), env=load_environment(), stderr=self.said, text=True)  # noqa: S603

    def passed_trial(self, ended: Mapping[int, int]) -> bool:
        """Whether the code was tried and could be loaded. Where it could not, the worker stays as it is."""
        if self.trial is None or self.said is None or self.trial.pid not in ended:
            return False
        status = self.trial.returncode = ended[self.trial.pid]
        with self.said as said:
            said.seek(0)
            if status:
                logger.error("the new code cannot be loaded; the worker keeps the old:\n%s", end_of(said.read()))
        self.trial = self.said = None
        return not status


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
    loaded = subprocess.run(load_command(), env=load_environment(), capture_output=True, text=True, check=False)  # noqa: S603
    return end_of(loaded.stderr) if loaded.returncode else ""


def load_command() -> list[str]:
    return [sys.executable, "-c", LOAD, *registry.unimportable()]


def load_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def end_of(text: str) -> str:
    return indented("\n".join(text.splitlines()[-LAST_LINES:]))
