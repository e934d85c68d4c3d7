"""Starts children, notices their ends by their wait status, and brakes when one after another gets nothing done."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from math import ceil
from time import monotonic

from .fork import ChildProcess, start_child
from .identity import child_id
from .options import WorkerOptions

logger = logging.getLogger("django_tasks_retry")
CALM_SECONDS = 10.0
LONGEST_PAUSE = 1.0


class Nursery:
    def __init__(self, supervisor_id: str, options: WorkerOptions, in_child: Callable[[], None]) -> None:
        self.supervisor_id, self.options, self.in_child = supervisor_id, options, in_child
        self.children: list[ChildProcess] = []
        self.wanted = options.processes
        self.tasks_left = options.max_tasks
        self.forked = 0
        self.crashes = 0
        self.crashed_at = float("-inf")
        self.braked_until = float("-inf")

    @property
    def working(self) -> list[ChildProcess]:
        return [child for child in self.children if child.leaving is None]

    def staff(self) -> list[ChildProcess]:
        """Start as many children as are missing, unless they keep crashing."""
        started: list[ChildProcess] = []
        if monotonic() < self.braked_until:
            return started
        if self.tasks_left == 0 and not self.children:
            self.wanted = 0
        while self.wanted > len(self.working) and self.tasks_left != 0:
            started.append(self.start())
            self.children.append(started[-1])
        return started

    def pause(self) -> float:
        return min(LONGEST_PAUSE, 0.05 * 2 ** (self.crashes - 2)) if self.crashes > 1 else 0.0

    def start(self) -> ChildProcess:
        self.forked += 1
        # After a crash one task at a time until some have gone well: a task that kills its process dies alone.
        careful = self.crashes > 0
        return start_child(child_id(self.supervisor_id, self.forked), self.share(), self.in_child, careful=careful)

    def share(self) -> WorkerOptions:
        """A child's part of what is left of --max-tasks."""
        if self.tasks_left is None:
            return self.options
        part = ceil(self.tasks_left / (self.wanted - len(self.working)))
        self.tasks_left -= part
        return replace(self.options, max_tasks=part)

    def reap(self) -> list[tuple[ChildProcess, str]]:
        """The children that have ended, each with the cause."""
        ended = []
        for child in list(self.children):
            pid, status = os.waitpid(child.pid, os.WNOHANG)
            if pid:
                self.children.remove(child)
                ended.append((child, self.judge(child, status)))
        if monotonic() - self.crashed_at > CALM_SECONDS:
            self.crashes = 0
        return ended

    def judge(self, child: ChildProcess, status: int) -> str:
        if self.tasks_left is not None and child.share is not None:
            self.tasks_left += child.share - child.board.claims
        if child.farewell == "drained":
            self.wanted -= 1
        if child.killed or (os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0):
            return child.leaving or "the worker was stopped"
        cause = cause_of(status)
        # A child that got work done is replaced at once; the brake is for those that crash before they do any.
        self.crashes = 1 if child.board.answered else self.crashes + 1
        self.crashed_at = monotonic()
        if self.braked_until <= self.crashed_at:
            # One crash after another must not put off the next start for ever.
            self.braked_until = self.crashed_at + self.pause()
        logger.error("child %s ended: %s", child.id, cause)
        return cause


def cause_of(status: int) -> str:
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return f"its process was killed by {signal.Signals(number).name}"
    return f"its process exited with code {os.WEXITSTATUS(status)}"
