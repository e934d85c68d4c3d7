"""Reloads code: the worker drains and restarts in the same process, once the code can be loaded.

In development it notices changed files by itself; in production SIGHUP asks for it.
"""

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
from ..shared.interval import Interval

logger = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
LAST_LINES = 8


class Autoreloader:
    def __init__(self, *, wanted: bool) -> None:
        self.wanted = wanted
        self.looking = Interval(LOOK_SECONDS)
        self.times: dict[Path, float] = {}
        self.must_restart = False
        self.trial: subprocess.Popen[str] | None = None
        self.errors: IO[str] | None = None

    def changed_file(self) -> Path | None:
        """Return a file that changed since the last check, if any."""
        if not self.wanted or not self.looking.is_due():
            return None
        times = {path: modified(path) for path in iter_all_python_module_files()}
        before, self.times = self.times, times
        return next((path for path, time in times.items() if before and before.get(path, time) != time), None)

    def restart(self, asks_to_stop: Callable[[], bool]) -> None:
        """Replace this process by a new one with the same arguments. Code that cannot be loaded is waited for."""
        while self.wanted and (error := loading_error()) and not asks_to_stop():
            logger.error("the code cannot be loaded; fix it, and the worker restarts:\n%s", error)
            while self.changed_file() is None and not asks_to_stop():
                sleep(LOOK_SECONDS / 10)
        if not asks_to_stop():
            os.execv(sys.executable, get_child_arguments())  # noqa: S606 - our own command line

    def try_code(self) -> None:
        """Load the project in a process of its own, beside the work: SIGHUP asks for the code as it is now."""
        if self.trial is None:
            self.errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed when the trial has ended
            self.trial = subprocess.Popen(load_command(), env=load_environment(), stderr=self.errors, text=True)  # noqa: S603

    def passed_trial(self, ended: Mapping[int, int]) -> bool:
        """Return whether the code was tried and could be loaded. If it could not, the worker stays as it is."""
        if self.trial is None or self.errors is None or self.trial.pid not in ended:
            return False
        status = self.trial.returncode = ended[self.trial.pid]
        with self.errors as errors:
            errors.seek(0)
            if status:
                logger.error("the new code cannot be loaded; the worker keeps the old:\n%s", end_of(errors.read()))
        self.trial = self.errors = None
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
    """Load the project in a new process. Return its error; empty if it has none that was not there before."""
    loaded = subprocess.run(load_command(), env=load_environment(), capture_output=True, text=True, check=False)  # noqa: S603
    return end_of(loaded.stderr) if loaded.returncode else ""


def load_command() -> list[str]:
    return [sys.executable, "-c", LOAD, *registry.unimportable()]


def load_environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def end_of(text: str) -> str:
    return indented("\n".join(text.splitlines()[-LAST_LINES:]))
