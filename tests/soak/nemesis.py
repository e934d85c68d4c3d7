"""The nemesis: breaks things at intervals drawn from a seed, and remembers what it did and when."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.soak.crew import Network, PipedSupervisor, Supervisor
from tests.soak.database import PostgreSQL, tried
from tests.soak.locks import BESIDE, EVENTS, RowLocks

Deed = Callable[[], str | None]
TAKE_OVER_SECONDS = 2.0  # past the lease, until others have what a lost supervisor's children held


@dataclass(frozen=True, slots=True)
class Outage:
    """While the database could not be reached by anybody; or while one supervisor could do nothing."""

    began: float
    ended: float
    who: str = ""


@dataclass(slots=True)
class Habit:
    """A deed done about every `seconds`."""

    seconds: float
    deed: Deed
    due: float = 0.0


@dataclass(slots=True)
class Nemesis:
    seed: int
    lease: float
    crew: Sequence[Supervisor]
    network: Network | None = None
    server: PostgreSQL | None = None
    locks: RowLocks | None = None
    pace: float = 1.0
    deeds: Counter[str] = field(default_factory=Counter)
    diary: list[tuple[float, str]] = field(default_factory=list)
    killed: dict[int, float] = field(default_factory=dict)
    outages: list[Outage] = field(default_factory=list)
    down_since: float | None = None
    holes: int = 0
    mending: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    chance: random.Random = field(init=False)
    habits: list[Habit] = field(init=False)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        self.habits = [Habit(seconds, deed) for seconds, deed in self.repertoire()]
        for habit in self.habits:
            self.plan(habit)

    def repertoire(self) -> list[tuple[float, Deed]]:
        processes: list[tuple[float, Deed]] = [
            (0.2, self.kill_child),
            (10.0, self.kill_supervisor),
            (1.0, self.freeze_child),
            (10.0, self.freeze_worker),
            (15.0, self.leave_log_unread),
        ]
        if self.network is None:
            return processes
        return [
            *processes,
            (0.7, self.reset_connections),
            (2.0, self.black_hole),
            (1.0, self.end_backend),
            (8.0, self.kill_backend),
            (20.0, self.restart_server),
            (2.0, self.lock_row),
            (6.0, self.lock_beside),
            (12.0, self.freeze_server),
            (3.0, self.step_clock),
        ]

    def plan(self, habit: Habit) -> None:
        habit.due = time.monotonic() + habit.seconds * self.pace * self.chance.uniform(0.5, 1.5)

    def turn(self) -> None:
        self.mend(time.monotonic())
        self.look_for_server()
        for habit in self.habits:
            if habit.due <= time.monotonic():
                done = habit.deed()
                if done:
                    self.deeds[habit.deed.__name__] += 1
                    self.diary.append((time.monotonic(), f"{habit.deed.__name__} {done}"))
                self.plan(habit)
        for supervisor in self.crew:
            if not supervisor.is_alive():
                supervisor.start()

    def mend(self, until: float) -> None:
        due = [one for one in self.mending if one[0] <= until]
        self.mending = [one for one in self.mending if one[0] > until]
        for _, mend in due:
            mend()

    def make_peace(self) -> None:
        """Everything that is frozen or cut off goes on."""
        self.mend(float("inf"))
        self.look_for_server()

    def later(self, seconds: float, mend: Callable[[], object], who: str | None = None) -> None:
        """Mend it in a while; until then it is an outage of `who`, or none where that is None."""
        began = time.monotonic()

        def end() -> None:
            mend()
            if who is not None:
                self.outages.append(Outage(began, time.monotonic(), who))

        self.mending.append((began + seconds, end))

    # Processes

    def any_child(self) -> int | None:
        children = [pid for supervisor in self.crew for pid in supervisor.children() if is_alive(pid)]
        return self.chance.choice(children) if children else None

    def kill_child(self) -> str | None:
        pid = self.any_child()
        if pid is None or not send(pid, signal.SIGKILL):
            return None
        self.killed[pid] = time.monotonic()
        return str(pid)

    def kill_supervisor(self) -> str:
        """The first one is spared: what leaks shows only in a long life. So is one whose log is not read for long."""
        supervisor = self.chance.choice([one for one in self.crew if not one.is_spared] or self.crew)
        killed, now = supervisor.pid, time.monotonic()
        for pid in supervisor.children():
            self.killed.setdefault(-pid, now)
        self.outages.append(Outage(now, now + self.lease + TAKE_OVER_SECONDS, supervisor.name))
        supervisor.kill()
        supervisor.start()
        return f"{supervisor.name} {killed}"

    def past_the_lease(self) -> float:
        return self.lease * self.chance.uniform(1.3, 2.2)

    def freeze_child(self) -> str | None:
        pid = self.any_child()
        if pid is None or not send(pid, signal.SIGSTOP):
            return None
        seconds = self.past_the_lease()
        self.later(seconds, lambda: send(pid, signal.SIGCONT))
        return f"{pid} for {seconds:.1f}s"

    def freeze_worker(self) -> str:
        """A supervisor with all its children, as when a machine sleeps; or the supervisor alone."""
        supervisor, seconds = self.chance.choice(self.crew), self.past_the_lease()
        if self.chance.random() < 0.5:
            pid = supervisor.pid
            send(pid, signal.SIGSTOP)
            self.later(seconds, lambda: send(pid, signal.SIGCONT), supervisor.name)
            return f"{supervisor.name} alone for {seconds:.1f}s"
        pids = [supervisor.pid, *supervisor.children()]
        for pid in pids:
            send(pid, signal.SIGSTOP)
        self.later(seconds, lambda: [send(pid, signal.SIGCONT) for pid in pids], supervisor.name)
        return f"{supervisor.name} and its children for {seconds:.1f}s"

    def leave_log_unread(self) -> str | None:
        """Mostly for a few seconds; sometimes for longer than a main thread may hang."""
        supervisor = next((one for one in self.crew if isinstance(one, PipedSupervisor)), None)
        if supervisor is None or not supervisor.is_read.is_set():
            return None
        seconds = 15.0 if self.chance.random() < 0.3 else self.chance.uniform(2.0, 5.0)
        supervisor.is_read.clear()
        self.later(seconds, supervisor.is_read.set, supervisor.name)
        return f"{supervisor.name} for {seconds:.1f}s"

    # Network and database

    def reset_connections(self) -> str:
        assert self.network is not None
        self.network.tell("reset")
        return "all"

    def black_hole(self) -> str:
        """Mostly a blink; sometimes longer than a lease."""
        assert self.network is not None
        seconds = self.past_the_lease() if self.chance.random() < 0.1 else 0.3
        self.network.tell("swallow")
        self.holes += 1
        self.later(seconds, self.fill_hole, "")
        return f"for {seconds:.1f}s"

    def fill_hole(self) -> None:
        assert self.network is not None
        self.holes -= 1
        if not self.holes:
            self.network.tell("pass")

    def backend_pid(self) -> int | None:
        from django.db import connection

        def ask() -> list[int]:
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pid FROM pg_stat_activity "
                    "WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() ORDER BY pid"
                )
                return [row[0] for row in cursor.fetchall()]

        pids = tried(ask)
        return self.chance.choice(pids) if pids else None

    def end_backend(self) -> str | None:
        """As pg_terminate_backend does."""
        pid = self.backend_pid()
        return str(pid) if pid and send(pid, signal.SIGTERM) else None

    def kill_backend(self) -> str | None:
        """The server takes a killed backend for a crash, and recovers as a whole."""
        pid = self.backend_pid()
        if pid is None or not send(pid, signal.SIGKILL):
            return None
        self.down_since = self.down_since or time.monotonic()
        return str(pid)

    def lock_row(self) -> str | None:
        """Somebody opens a transaction, locks a few running tasks, and goes for a coffee."""
        assert self.locks is not None
        seconds = self.lease * self.chance.uniform(2.0, 5.0)
        transaction = self.locks.hold(self.chance.randint(1, 3))
        if transaction is None:
            return None
        self.later(seconds, transaction.close)
        return f"for {seconds:.1f}s"

    def lock_beside(self) -> str | None:
        """Nobody can write while all events are locked; rows of workers, queues, lanes and totals hold up no task."""
        assert self.locks is not None
        sql, seconds = self.chance.choice(BESIDE), self.past_the_lease()
        transaction = self.locks.hold_beside(sql)
        if transaction is None:
            return None
        self.later(seconds, transaction.close, "" if sql == EVENTS else None)
        return f"for {seconds:.1f}s: {sql}"

    def freeze_server(self) -> str:
        """As a host that is paused: connections stay open, and nobody answers."""
        assert self.server is not None
        seconds = self.past_the_lease()
        self.later(seconds, self.server.freeze(seconds), "")
        return f"for {seconds:.1f}s"

    def step_clock(self) -> str:
        supervisor = self.chance.choice(self.crew)
        seconds = self.chance.randint(-3600, 3600)
        supervisor.step_clock(seconds)
        return f"{supervisor.name} to {seconds}s"

    def restart_server(self) -> str:
        assert self.server is not None
        self.down_since = self.down_since or time.monotonic()
        self.server.restart_hard()
        return "hard"

    def look_for_server(self) -> None:
        if self.down_since is not None and tried(ping):
            self.outages.append(Outage(self.down_since, time.monotonic()))
            self.down_since = None


def ping() -> bool:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return True


def is_alive(pid: int) -> bool:
    """Not one that has ended and waits for its parent to notice."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return False


def send(pid: int, number: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
