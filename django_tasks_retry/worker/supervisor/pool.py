"""The pool of children: starts them, notices their ends, and backs off when one after another gets nothing done."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import ceil
from time import monotonic

from ..identity import child_id
from ..options import WorkerOptions
from .child_process import ChildProcess, start_child

logger = logging.getLogger(__name__)
CALM_SECONDS = 10.0
LONGEST_BACKOFF = 1.0
FORK_AGAIN_SECONDS = 1.0


class ChildPool:
    def __init__(self, supervisor_id: str, options: WorkerOptions, close_in_child: Callable[[], None]) -> None:
        self.supervisor_id, self.options, self.close_in_child = supervisor_id, options, close_in_child
        self.children: list[ChildProcess] = []
        self.wanted = options.processes
        self.tasks_left = options.max_tasks
        self.forked = 0
        self.crashes = 0
        self.crashed_at = float("-inf")
        self.start_after = float("-inf")

    @property
    def working(self) -> list[ChildProcess]:
        return [child for child in self.children if child.stop_reason is None]

    def fill(self) -> list[ChildProcess]:
        """Start as many children as are missing, unless they keep crashing."""
        started: list[ChildProcess] = []
        if monotonic() < self.start_after:
            return started
        if self.tasks_left == 0 and not self.children:
            self.wanted = 0
        while self.wanted > len(self.working) and self.tasks_left != 0:
            child = self.start()
            if child is None:
                break
            started.append(child)
            self.children.append(child)
        return started

    def start(self) -> ChildProcess | None:
        """None where the system refuses a process: the others work on, and it is tried again."""
        # After a crash one task at a time until some have gone well: a task that kills its process dies alone.
        careful, options = self.crashes > 0, self.share()
        name = child_id(self.supervisor_id, self.forked + 1)
        try:
            child = start_child(name, options, self.close_in_child, careful=careful)
        except OSError as error:
            if self.tasks_left is not None and options.max_tasks is not None:
                self.tasks_left += options.max_tasks
            self.start_after = monotonic() + FORK_AGAIN_SECONDS
            logger.warning("no process for a child (%s); trying again in %gs", error.strerror, FORK_AGAIN_SECONDS)
            return None
        self.forked += 1
        return child

    def share(self) -> WorkerOptions:
        """The options of the next child, with its part of what is left of --max-tasks."""
        if self.tasks_left is None:
            return self.options
        part = ceil(self.tasks_left / (self.wanted - len(self.working)))
        self.tasks_left -= part
        return replace(self.options, max_tasks=part)

    def reap(self, statuses: dict[int, int]) -> list[tuple[ChildProcess, str]]:
        """The children among the processes that have ended, each with the cause."""
        ended = [child for child in self.children if child.pid in statuses]
        self.children = [child for child in self.children if child.pid not in statuses]
        if monotonic() - self.crashed_at > CALM_SECONDS:
            self.crashes = 0
        return [(child, self.record_exit(child, statuses[child.pid])) for child in ended]

    def record_exit(self, child: ChildProcess, status: int) -> str:
        """Take the child's end into account. Returns the cause."""
        if self.tasks_left is not None and child.share is not None:
            self.tasks_left += child.share - child.inflight.claims
        if child.has_drained:
            self.wanted -= 1
        if child.is_killed or (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0):
            return child.stop_reason or "the worker was stopped"
        cause = cause_of(status)
        # A child that got work done is replaced at once; the backoff is for those that crash before they do any.
        self.crashes = 1 if child.inflight.answered else self.crashes + 1
        self.crashed_at = monotonic()
        if self.start_after <= self.crashed_at:
            # One crash after another must not put off the next start for ever.
            self.start_after = self.crashed_at + self.crash_backoff()
        logger.error("child %s ended: %s", child.id, cause)
        return cause

    def crash_backoff(self) -> float:
        return min(LONGEST_BACKOFF, 0.05 * 2 ** (self.crashes - 2)) if self.crashes > 1 else 0.0


def ended_processes() -> dict[int, int]:
    """Wait statuses by pid. As PID 1 of a container we inherit processes that tasks left behind, and reap those too."""
    statuses: dict[int, int] = {}
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            statuses[ended[0]] = ended[1]
    return statuses


def cause_of(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"its process was killed by {signal.Signals(number).name}"
    return f"its process exited with code {os.WEXITSTATUS(status)}"
