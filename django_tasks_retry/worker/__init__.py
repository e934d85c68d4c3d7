"""The process that claims, runs and reports: a supervisor and its children."""

import logging
from collections.abc import Callable

from .options import WorkerOptions


def start(
    options: WorkerOptions,
    log_format: str | None = None,
    verbosity: int = 1,
    check_migrations: Callable[[], None] = lambda: None,
) -> int:
    """Run a worker in the main thread of this process, whose connections are prepared. Return the exit code."""
    from ..conf import check_backend
    from ..conf import options as queue_options
    from ..taskqueue import database
    from . import logs
    from .startup import greeting, phase, refuse_unsafe_start
    from .supervisor.supervisor import Supervisor

    logs.set_up(log_format, verbosity, queue_options(check_backend(options.backend)).admin_email_interval)
    with phase("its migrations are read", database(options.backend)):
        check_migrations()
    refuse_unsafe_start(options)
    supervisor = Supervisor(options)
    logging.getLogger(__name__).info("%s", greeting(supervisor.id, options))
    return supervisor.run()
