"""The pool of children: starts them, notices their ends, and backs off when one after another gets nothing done.

A task whose process died twice in a row runs in one of its own, so that it harms no neighbour.
"""

import logging
import os
import random
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from math import ceil
from time import monotonic

from ... import registry
from ...models import Task
from ...rules.names import short_id, short_name
from ...rules.queues import serves
from ...taskqueue import ClaimMemory, find_poison, is_work_left
from ..options import WorkerOptions, child_id
from ..shared.database import DatabaseCaller, Unavailable
from ..shared.interval import Interval
from ..shared.messages import StopReason
from .child_process import ChildProcess, Exit, start_child

logger = logging.getLogger(__name__)
CALM_SECONDS = 10.0
LONGEST_BACKOFF = 1.0
FORK_AGAIN_SECONDS = 1.0
MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024


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
        return [child for child in self.children if child.stop_reason is None and not child.is_alone]

    @property
    def seated(self) -> list[ChildProcess]:
        """Return the children that take a place. One that is stopping counts too if connections are bounded."""
        if self.options.max_connections is None:
            return self.working
        return [child for child in self.children if not child.is_alone]

    def count_running(self) -> int:
        return sum(len(child.running()) for child in self.children)

    def ask_to_stop(self) -> None:
        for child in self.children:
            child.ask_to_stop(StopReason.SHUTDOWN)

    def kill(self) -> None:
        for child in self.children:
            child.stop_reason = child.stop_reason or StopReason.SHUTDOWN
            child.kill()

    def fill(self) -> list[ChildProcess]:
        """Start as many children as are missing, unless they keep crashing."""
        started: list[ChildProcess] = []
        if monotonic() < self.start_after:
            return started
        if self.tasks_left == 0 and not self.children:
            self.wanted = 0
        while self.wanted > len(self.seated) and self.tasks_left != 0:
            child = self.start()
            if child is None:
                break
            started.append(child)
            self.children.append(child)
        return started

    def start(self) -> ChildProcess | None:
        """Start a child. Return None if the system refuses a process: the others work on, and it is tried again."""
        # After a crash one task at a time until some have gone well: a task that kills its process dies alone.
        return self.start_with(self.share(), careful=self.crashes > 0)

    def start_alone(self, task: Task) -> ChildProcess | None:
        """Start a child for one task. Return None if there are enough of them, or no room for a process."""
        if not self.has_place_alone:
            return None
        alone = replace(self.options, threads=1, async_slots=1, max_tasks=1, drain=True, only=task)
        child = self.start_with(alone, careful=False)
        self.children += [child] if child else []
        return child

    @property
    def has_place_alone(self) -> bool:
        return sum(child.is_alone for child in self.children) < self.options.alone

    def start_with(self, options: WorkerOptions, *, careful: bool) -> ChildProcess | None:
        name = child_id(self.supervisor_id, self.forked + 1)
        try:
            child = start_child(name, options, self.close_in_child, careful=careful)
        except OSError as error:
            if self.tasks_left is not None and options.max_tasks is not None and options.only is None:
                self.tasks_left += options.max_tasks
            self.start_after = monotonic() + FORK_AGAIN_SECONDS
            logger.warning("cannot fork a child (%s); retrying in %gs", error.strerror, FORK_AGAIN_SECONDS)
            return None
        self.forked += 1
        return child

    def share(self) -> WorkerOptions:
        """The options of the next child, with its part of what is left of --max-tasks."""
        if self.tasks_left is None:
            return self.options
        part = ceil(self.tasks_left / (self.wanted - len(self.seated)))
        self.tasks_left -= part
        return replace(self.options, max_tasks=part)

    def reap(self, statuses: dict[int, Exit]) -> list[tuple[ChildProcess, str]]:
        """Return the children among the processes that have ended, each with the cause."""
        ended = [child for child in self.children if child.pid in statuses]
        self.children = [child for child in self.children if child.pid not in statuses]
        if monotonic() - self.crashed_at > CALM_SECONDS:
            self.crashes = 0
        return [(child, self.record_exit(child, statuses[child.pid])) for child in ended]

    def record_exit(self, child: ChildProcess, ended: Exit) -> str:
        """Take the child's end into account. Return the cause."""
        child.death = None if child.is_killed else ended
        if child.is_alone and child.death and ended.status:
            logger.error("child %s, alone with one task, ended: %s", child.id, ended.cause)
            return ended.cause
        if child.is_alone:
            return child.stop_reason or StopReason.STOPPED
        if self.tasks_left is not None and child.share is not None:
            self.tasks_left += child.share - child.inflight.claims
        if child.has_drained:
            self.wanted -= 1
        if child.is_killed or ended.code == 0:
            return child.stop_reason or StopReason.STOPPED
        # A child that got work done is replaced at once; the backoff is for those that crash before they do any.
        self.crashes = 1 if child.inflight.answered else self.crashes + 1
        self.crashed_at = monotonic()
        if self.start_after <= self.crashed_at:
            # One crash after another must not put off the next start for ever.
            self.start_after = self.crashed_at + self.crash_backoff()
        logger.error("child %s ended: %s", child.id, ended.cause)
        return ended.cause

    def crash_backoff(self) -> float:
        return min(LONGEST_BACKOFF, 0.05 * 2 ** (self.crashes - 2)) if self.crashes > 1 else 0.0


def ended_processes() -> dict[int, Exit]:
    """Reap processes, by pid. As PID 1 of a container a worker inherits those that tasks left behind, too."""
    statuses: dict[int, Exit] = {}
    with suppress(ChildProcessError):
        while (ended := os.wait4(-1, os.WNOHANG))[0]:
            statuses[ended[0]] = Exit(ended[1], ended[2].ru_maxrss * MAXRSS_BYTES)
    return statuses


LOOK_SECONDS = 10.0
"""Between polls for poison tasks that other supervisors left behind. A crash of an own child polls at once."""

POLLS_A_SECOND = 2
AGAIN_SECONDS = 1.0  # seconds until the next try, if no process could be forked or the task could not be claimed
Kind = tuple[str, str, str]


class Isolation:
    def __init__(self, options: WorkerOptions, database: DatabaseCaller, pool: ChildPool) -> None:
        self.options, self.database, self.pool = options, database, pool
        self.looking = Interval(LOOK_SECONDS)
        self.page = 0
        self.started: dict[ChildProcess, Task] = {}
        self.set_aside: dict[Kind, float] = {}

    def share_with(self, workers: int) -> None:
        """Poll less often while many workers do."""
        self.looking.seconds = max(LOOK_SECONDS, workers / POLLS_A_SECOND)

    def tick(self) -> ChildProcess | None:
        """Return a child that was started for a poison task, if any."""
        self.note_ended()
        if not (self.pool.has_place_alone and self.database.is_available and self.looking.is_due()):
            return None
        task = self.find()
        return self.start(task) if task else None

    def note_ended(self) -> None:
        """Set a kind of task aside if one could not be claimed: it is paused, say, or its lane is full."""
        for child in [child for child in self.started if child not in self.pool.children]:
            kind = kind_of(self.started.pop(child))
            if child.inflight.claims:
                self.looking.soon()
            else:
                self.set_aside[kind] = monotonic() + LOOK_SECONDS
                self.looking.soon(AGAIN_SECONDS)

    def is_work_left(self) -> bool:
        """Return whether a drain must go on: for a poison task in a full lane, or for tasks that waited for such a one.

        The latter need another child, as the last one ended before them.
        """
        memory = ClaimMemory(self.options.queues, self.options.exclude, registry.known_paths())
        backend = self.options.backend
        try:
            is_poison_left = self.database.call(lambda: is_work_left(memory, backend, poison=True))
            self.pool.wanted += self.database.call(lambda: is_work_left(memory, backend))
        except Unavailable:
            return True
        return is_poison_left or self.pool.wanted > 0

    def find(self) -> Task | None:
        """Return a random poison task: other supervisors poll, too, and would all start a process for the first."""
        try:
            found = self.database.call(lambda: find_poison(self.serves, self.page, backend=self.options.backend))
        except Unavailable:
            return None
        now = monotonic()
        self.set_aside = {kind: until for kind, until in self.set_aside.items() if until > now}
        begun = {task.pk for task in self.started.values()}
        poison = [task for task in found.tasks if kind_of(task) not in self.set_aside and task.pk not in begun]
        if poison:
            return random.choice(poison)  # noqa: S311 - spreads load
        self.page = found.next_page
        if self.page:  # a page of those that only others can run hides nobody behind it
            self.looking.soon(AGAIN_SECONDS)
        return None

    def start(self, task: Task) -> ChildProcess | None:
        name, task_id = short_name(task.func_path), short_id(task.pk)
        logger.warning("the process of %s %s died twice in a row: it runs alone now", name, task_id)
        child = self.pool.start_alone(task)
        if child is None:
            self.looking.soon(AGAIN_SECONDS)
        else:
            self.started[child] = task
            self.looking.soon()
        return child

    def serves(self, queue: str) -> bool:
        return serves(queue, self.options.queues, self.options.exclude)


def kind_of(task: Task) -> Kind:
    return task.queue, task.func_path, task.lane
