"""Looks for what is wrong, on one worker: logs what keeps tasks from running, and guards against a bad release.

The figures of the queues are kept as the backlog of the minute.
"""

import logging
from time import monotonic

from ....analysis.releases import guard_release
from ....clock import now
from ....conf import options
from ....display.problems import Problem, function_problems, problems_of_queue, unknown_function_problems
from ....display.scope import Scope, Standing, estimated_due, read_workers
from ....taskqueue import database
from ....taskqueue.statistics import add_backlog, depths, paused_queues, queue_figures
from ...logs import printable
from ...shared.database import DatabaseCaller
from ...shared.interval import Interval
from .services import Periodic

logger = logging.getLogger(__name__)
SECONDS = 60.0
AGAIN_SECONDS = 3600.0  # a problem that lasts is logged again after this time
PAUSE_FACTOR = 50  # it rests for so many times as long as the last look took, which with very many queues is seconds
LOGGED = {"unserved", "unknown_function", "failing_function"}


class Problems:
    """One of the workers looks, so that each problem is logged once for all of them."""

    def __init__(self, backend: str, caller: DatabaseCaller) -> None:
        self.backend, self.caller = backend, caller
        self.interval, self.is_elected = Interval(SECONDS, at_once=False), False
        self.logged: dict[tuple[str, ...], float] = {}

    def is_due(self) -> bool:
        return self.is_elected and self.interval.is_due()

    def run(self) -> int:
        begun = monotonic()
        found = {problem.key: problem for problem in self.caller.call(self.read) if problem.kind in LOGGED}
        self.logged = {key: at for key, at in self.logged.items() if key in found and at > begun - AGAIN_SECONDS}
        for key in found.keys() - self.logged.keys():
            self.logged[key] = begun
            logger.warning("%s", printable(f"{found[key].text} {found[key].command}".rstrip()))
        self.interval.seconds = max(SECONDS, PAUSE_FACTOR * (monotonic() - begun))
        return 0

    def read(self) -> list[Problem]:
        using = database(self.backend)
        scope, waiting = Scope(self.backend, using, now(using)), depths(using)
        workers, names = read_workers(scope), sorted({depth.queue for depth in waiting})
        queues = queue_figures(names, waiting, workers, scope.now, paused=paused_queues(using))
        standing = Standing(scope, workers, waiting, queues)
        counted = [(each.name, estimated_due(each, using), each.oldest_seconds) for each in queues]
        add_backlog(counted, backend=self.backend)
        # Not what needs the names of users: a worker's role may not read them.
        unserved = [problem for queue in queues for problem in problems_of_queue(queue)]
        return [*unserved, *unknown_function_problems(standing), *function_problems(standing)]


class DeployGuard(Periodic):
    """Pauses or reports functions that fail since the newest release; looks once a minute."""

    seconds, is_elected = 60.0, False

    def is_due(self) -> bool:
        return self.is_elected and options(self.backend).deploy_guard is not None and super().is_due()

    def run(self) -> int:
        self.database.call(lambda: guard_release(self.backend))
        return 0
