"""The worker's registration and heartbeat: a row that operators see, and a file that probes watch."""

import logging
import os
import platform
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from itertools import islice
from pathlib import Path
from time import monotonic, sleep

from ... import __version__, registry
from ...conf import options
from ...models import Worker
from ...taskqueue import deregister_worker, heartbeat, listed_names, register_worker, sync_schedules
from ..options import WorkerOptions
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.interval import Interval

logger = logging.getLogger(__name__)
REGISTER_SECONDS = 10.0
MOST_PACKAGES = 500


class Heartbeat:
    def __init__(self, worker_id: str, options: WorkerOptions, database: DatabaseCaller) -> None:
        self.worker_id, self.options, self.database = worker_id, options, database
        # For registration: these are many statements, and there are no children yet to be looked after.
        self.patient = DatabaseCaller(database.using, seconds=REGISTER_SECONDS)
        self.beating, self.touching = Interval(5.0), Interval(1.0)

    def register(self) -> bool:
        """Register the worker. If the database cannot be asked, return False when it may be tried again."""
        try:
            self.patient.call(self.write_row)
            # Afterwards: a worker that stops unlisted schedules must know of this one before its rows are there.
            pages = sync_schedules(backend=self.options.backend)
            while self.patient.call(lambda: next(pages, 0)):
                pass
        except Unavailable:
            wait = max(0.0, self.patient.try_after - monotonic())
            level = logging.WARNING if self.patient.failures in {1, 10, 100} else logging.DEBUG
            logger.log(level, "waiting for the database: this worker is not registered yet")
            sleep(wait)
            return False
        return True

    def write_row(self) -> None:
        register_worker(
            self.worker_id,
            self.options.backend,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=__version__,
            release=options(self.options.backend).release,
            versions=installed_versions(),
            queues=list(self.options.queues),
            exclude=list(self.options.exclude),
            tasks=registry.known_paths(),
            schedules=listed_names(self.options.backend),
            processes=self.options.processes,
            slots=self.options.slots,
            threads=self.options.all_threads,
        )

    def touch_file(self) -> None:
        if self.options.heartbeat_file and self.touching.is_due():
            with suppress(OSError):  # who watches the file will notice
                Path(self.options.heartbeat_file).touch()

    def beat(self, count_running: Callable[[], int], *, listening: bool) -> list[Worker] | None:
        """Write the heartbeat if it is due, and return the workers that are alive."""
        if not self.database.is_available or not self.beating.is_due():
            return None
        running = count_running()
        try:
            return self.database.call(
                lambda: heartbeat(self.worker_id, self.options.backend, running, listening=listening)
            )
        except Unavailable:
            return None

    def deregister(self) -> None:
        with suppress(Unavailable):
            self.database.call(lambda: deregister_worker(self.worker_id, self.options.backend))


@cache
def installed_versions() -> dict[str, str]:
    """Return the versions of Python and of every installed package."""
    packages: dict[str, str] = {}
    for package in islice(distributions(), MOST_PACKAGES):
        metadata = package.metadata  # each access parses the file again, a millisecond for a package
        if metadata and (name := metadata["Name"]):
            packages[str(name)[:60].lower()] = str(metadata["Version"])[:40]
    return {"python": platform.python_version(), **packages}
