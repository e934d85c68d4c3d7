"""The worker's registration and heartbeat: a row that operators see, and a file that probes watch."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ... import __version__, registry
from ...conf import options
from ...taskqueue import Peer, deregister_worker, heartbeat, listed_names, register_worker, sync_schedules
from ..identity import installed_versions
from ..options import WorkerOptions
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.timer import Every


class Heartbeat:
    def __init__(self, worker_id: str, options: WorkerOptions, database: DatabaseCaller) -> None:
        self.worker_id, self.options, self.database = worker_id, options, database
        self.beating, self.touching = Every(5.0), Every(1.0)

    def register(self) -> None:
        """Raises Unavailable where the database cannot be asked."""
        self.database.call(
            lambda: register_worker(
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
        )
        # Afterwards: whoever looks for schedules that nobody lists must know of us before our rows are there.
        self.database.call(lambda: sync_schedules(backend=self.options.backend))

    def touch_file(self) -> None:
        if self.options.heartbeat_file and self.touching.is_due():
            with suppress(OSError):  # who watches the file will notice
                Path(self.options.heartbeat_file).touch()

    def beat(self, count_running: Callable[[], int], *, listening: bool) -> list[Peer] | None:
        """Where it is due: the workers that are alive."""
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
