"""A child as its supervisor sees it, and how it is forked.

Children are forked from a supervisor that has loaded everything, so that a new one is ready in milliseconds.
"""

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, NamedTuple
from uuid import UUID

from django.db import connections

from ..child.child import Child
from ..child.prefetch import MOST_AHEAD
from ..child.process import EXIT_BROKEN, EXIT_CRIPPLED, EXIT_FENCED, run_child
from ..options import WorkerOptions
from ..shared.inflight import Entry, InFlightTable, State
from ..shared.messages import Channel, Message, Stop, StopReason, channel_pair

SILENT_SECONDS = 5.0


class Exit(NamedTuple):
    """How a process ended: its wait status, and how many bytes it took at the most."""

    status: int
    peak_memory: int

    @property
    def signal(self) -> str | None:
        return signal.Signals(os.WTERMSIG(self.status)).name if os.WIFSIGNALED(self.status) else None

    @property
    def code(self) -> int | None:
        return os.WEXITSTATUS(self.status) if os.WIFEXITED(self.status) else None

    @property
    def cause(self) -> str:
        return (
            f"its process was killed by {self.signal}" if self.signal else f"its process exited with code {self.code}"
        )

    @property
    def facts(self) -> dict[str, Any]:
        """Return what the events of its tasks record."""
        return {"process": {"signal": self.signal, "exit_code": self.code, "peak_memory": self.peak_memory}}

    @property
    def is_crash(self) -> bool:
        """Whether a task may be the cause. A child fences itself off if the database was away."""
        return self.code != EXIT_FENCED

    @property
    def by_decision(self) -> bool:
        """Whether the child found that it could not go on. The task that damaged it may have returned long before."""
        return self.code in {EXIT_BROKEN, EXIT_CRIPPLED}


@dataclass(slots=True, eq=False)
class ChildProcess:
    pid: int
    id: str
    channel: Channel
    stats_channel: Channel
    inflight: InFlightTable
    last_message_at: float = field(default_factory=monotonic)
    sent_goodbye: bool = False
    has_drained: bool = False
    stop_reason: StopReason | None = None
    is_killed: bool = False
    is_hung: bool = False  # killed since its main thread made no progress
    overdue: set[tuple[UUID, int]] = field(default_factory=set)
    """Attempts past their timeout, by task and attempt, whose failure is yet to be recorded."""
    released: set[tuple[UUID, int]] = field(default_factory=set)
    """Attempts that never started and were given back by the supervisor."""
    given_up: set[UUID] = field(default_factory=set)
    """Tasks whose attempt here counts no more, whatever still runs of it."""
    share: int | None = None
    woken_at: float = 0.0
    is_alone: bool = False  # it runs one task whose process died before, and ends
    death: Exit | None = None  # how its process ended by itself

    def entries(self, *states: State) -> list[Entry]:
        return list(self.inflight.entries(*states))

    def running(self) -> list[Entry]:
        return self.entries(State.STARTED)

    def send(self, message: Message) -> None:
        self.channel.send(message)

    def ask_to_stop(self, reason: StopReason) -> None:
        self.stop_reason, self.last_message_at = reason, monotonic()
        self.send(Stop(reason, tuple(str(task_id) for task_id in self.given_up)))

    def note_overdue(self, latest: float) -> None:
        """Note attempts whose deadline lies before that moment, and whose timeout is yet to be recorded."""
        late = (entry for entry in self.running() if entry.deadline < latest)
        self.overdue |= {(entry.task_id, entry.attempts) for entry in late if entry.task_id not in self.given_up}

    def give_up_overdue(self) -> None:
        self.given_up |= {task_id for task_id, _ in self.overdue}
        self.overdue.clear()

    @property
    def silent_seconds(self) -> float:
        return monotonic() - self.last_message_at

    def is_hopeless(self) -> bool:
        """Whether only functions that were given up keep it from stopping, or it does not answer any more.

        Then it may hold the very lock that its timeout waits for: SQLite has only one.
        """
        only_given_up = all(entry.task_id in self.given_up for entry in self.running())
        return self.silent_seconds > SILENT_SECONDS or (only_given_up and self.silent_seconds > 1.0)

    def kill(self) -> None:
        """Kill the process by the supervisor's decision, so its tasks are refunded."""
        self.is_killed = True
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def close(self) -> None:
        self.channel.close()
        self.stats_channel.close()


def start_child(
    worker_id: str, options: WorkerOptions, close_in_child: Callable[[], None], *, careful: bool
) -> ChildProcess:
    """Fork a child. Raise OSError if the system has no room for another process."""
    connections.close_all()
    ours, theirs = channel_pair()
    our_stats, their_stats = channel_pair()
    inflight = InFlightTable(options.threads + options.async_slots + MOST_AHEAD)
    inflight.promise_return(monotonic() + SILENT_SECONDS)
    supervisor_pid = os.getpid()
    try:
        pid = os.fork()
    except OSError:
        for channel in (ours, theirs, our_stats, their_stats):
            channel.close()
        raise
    if pid == 0:
        for channel in (ours, our_stats):
            channel.close()
        their_stats.socket.settimeout(0)
        close_in_child()
        run_child(
            lambda: Child(worker_id, theirs, their_stats, inflight, options, careful=careful).run(),
            worker_id,
            options.backend,
            supervisor_pid,
        )
    for channel in (theirs, their_stats):
        channel.close()
    for channel in (ours, our_stats):
        channel.socket.settimeout(0)
    return ChildProcess(
        pid, worker_id, ours, our_stats, inflight, share=options.max_tasks, is_alone=options.only is not None
    )
