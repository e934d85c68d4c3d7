"""Children are forked from a supervisor that has loaded everything, so that a new one is ready in milliseconds."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from uuid import UUID

from django.db import connections

from .appetite import MOST_AHEAD
from .board import Board, Entry, State
from .channel import Channel, channel_pair
from .child import Child
from .options import WorkerOptions

logger = logging.getLogger("django_tasks_retry")
PR_SET_PDEATHSIG = 1
UNHEARD_SECONDS = 5.0


@dataclass(slots=True, eq=False)
class ChildProcess:
    """A child as its supervisor sees it."""

    pid: int
    id: str
    channel: Channel
    board: Board
    born: float = field(default_factory=monotonic)
    heard: float = field(default_factory=monotonic)
    farewell: str | None = None
    leaving: str | None = None
    killed: bool = False
    overdue: set[tuple[UUID, int]] = field(default_factory=set)
    timed_out: set[UUID] = field(default_factory=set)
    share: int | None = None

    def entries(self, *states: State) -> list[Entry]:
        return [entry for entry in self.board.entries() if entry.state in states]

    def running(self) -> list[Entry]:
        return self.entries(State.STARTED)

    def ask_to_leave(self, reason: str) -> None:
        self.leaving, self.heard = reason, monotonic()
        self.channel.send(stop=reason, abandon=[str(task_id) for task_id in self.timed_out])

    def note_overdue(self, latest: float) -> None:
        """Attempts whose deadline lies before that moment, and whose timeout is yet to be recorded."""
        late = (entry for entry in self.running() if entry.deadline < latest)
        self.overdue |= {(entry.task_id, entry.attempts) for entry in late if entry.task_id not in self.timed_out}

    def settle_overdue(self) -> None:
        self.timed_out |= {task_id for task_id, _ in self.overdue}
        self.overdue.clear()

    def is_hopeless(self) -> bool:
        """Asked to leave, and nothing but timed out functions keeps it, or it does not even answer any more.

        Then it may hold the very lock that its timeout waits for: SQLite has only one.
        """
        unheard = monotonic() - self.heard
        only_stuck = all(entry.task_id in self.timed_out for entry in self.running())
        return unheard > UNHEARD_SECONDS or (only_stuck and unheard > 1.0)

    def kill(self) -> None:
        self.killed = True
        os.kill(self.pid, signal.SIGKILL)


def start_child(
    worker_id: str, options: WorkerOptions, close_others: Callable[[], None], *, careful: bool
) -> ChildProcess:
    connections.close_all()
    ours, theirs = channel_pair()
    board = Board(options.threads + options.async_slots + MOST_AHEAD)
    supervisor_pid = os.getpid()
    pid = os.fork()
    if pid == 0:
        ours.close()
        close_others()
        live_as_child(lambda: Child(worker_id, theirs, board, options, careful=careful), worker_id, supervisor_pid)
    theirs.close()
    ours.socket.settimeout(0)
    return ChildProcess(pid, worker_id, ours, board, share=options.max_tasks)


def live_as_child(new_child: Callable[[], Child], worker_id: str, parent: int) -> None:
    """Never returns, and leaves no thread of a task a chance to hold up the end."""
    code = 1
    try:
        forget_signals()
        die_with(parent)
        new_child().run()
        code = 0
    except BaseException:
        logger.exception("child %s failed; it will be replaced", worker_id)
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except (AttributeError, OSError, ValueError):  # closed, or never open
                continue
        os._exit(code)


def forget_signals() -> None:
    """The supervisor decides; a Ctrl-C in the terminal reaches it, not us."""
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        # Not SIG_IGN, which a program that a task starts would inherit.
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGCHLD, signal.SIGALRM):
        signal.signal(number, signal.SIG_DFL)


def die_with(parent: int) -> None:
    """On Linux the kernel ends us with our supervisor, even while a task holds the interpreter."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
