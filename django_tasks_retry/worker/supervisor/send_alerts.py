"""Looks for causes of alerts once a minute, on one worker, and sends them, from a process forked for that purpose."""

import logging
from collections.abc import Callable
from time import monotonic

from django.db.utils import Error

from ...analysis.alerts import send_alerts
from ...clock import now
from ...conf import options
from ...display.scope import Scope, read_standing
from ...taskqueue import database
from ..shared.interval import Interval
from .send_task_finished import LONGEST_SECONDS, OwnProcess

logger = logging.getLogger(__name__)
SECONDS = 60.0
PAUSE_FACTOR = 10  # it rests for so many times as long as the last look took


class AlertProcess(OwnProcess):
    def __init__(self, backend: str, close_in_child: Callable[[], None]) -> None:
        super().__init__(backend, close_in_child)
        self.interval, self.is_elected = Interval(SECONDS, at_once=False), False

    def tick(self) -> None:
        if self.pid is not None:
            self.kill_if_late()
        elif self.is_elected and options(self.backend).alerts and self.interval.is_due():
            self.fork(lambda: look(self.backend))

    def note_exit(self, status: int) -> None:
        if status != 0:
            logger.error("alerts may not have been sent: their process ended with status %d", status)
        took = monotonic() - self.kill_at + LONGEST_SECONDS
        self.pid, self.interval.seconds = None, max(SECONDS, PAUSE_FACTOR * took)


def look(backend: str) -> None:
    try:
        using = database(backend)
        send_alerts(read_standing(Scope(backend, using, now(using))))
    except Error as error:
        logger.debug("alerts: the database cannot be asked (%s)", error)  # the supervisor says so
