"""The process that claims, runs and reports: a supervisor and its children."""

from __future__ import annotations

import logging
import signal
import sys

from .options import WorkerOptions


def start(options: WorkerOptions, log_format: str | None = None, verbosity: int = 1) -> int:
    """Run a worker in this process, which must be the main thread of it. Returns the exit code."""
    from ..conf import check_backend
    from ..conf import options as queue_options
    from . import logs
    from .startup import greeting, prepare_connections, refuse_unsafe_start
    from .supervisor.supervisor import Supervisor

    logs.set_up(log_format, verbosity, queue_options(check_backend(options.backend)).admin_email_interval)
    # The first process of a container is deaf to what it does not handle, and it may wait here for its database.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    prepare_connections(options)
    refuse_unsafe_start(options)
    supervisor = Supervisor(options)
    logging.getLogger(__name__).info("%s", greeting(supervisor.id, options))
    return supervisor.run()
