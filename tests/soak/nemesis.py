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

from tests.soak.crew import Network, Supervisor
from tests.soak.database import PostgreSQL, tried

Deed = Callable[[], str | None]


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
    deeds: Counter[str] = field(default_factory=Counter)
    diary: list[tuple[float, str]] = field(default_factory=list)
    killed: dict[int, float] = field(default_factory=dict)
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
        ]

    def plan(self, habit: Habit) -> None:
        habit.due = time.monotonic() + habit.seconds * self.chance.uniform(0.5, 1.5)

    def turn(self) -> None:
        self.mend(time.monotonic())
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

    # Processes

    def any_child(self) -> int | None:
        children = [pid for supervisor in self.crew for pid in supervisor.children()]
        return self.chance.choice(children) if children else None

    def kill_child(self) -> str | None:
        pid = self.any_child()
        if pid is None or not send(pid, signal.SIGKILL):
            return None
        self.killed[pid] = time.monotonic()
        return str(pid)

    def kill_supervisor(self) -> str:
        supervisor = self.chance.choice(self.crew)
        killed = supervisor.pid
        for pid in supervisor.children():
            self.killed.setdefault(-pid, time.monotonic())
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
        self.mending.append((time.monotonic() + seconds, lambda: send(pid, signal.SIGCONT) and None))
        return f"{pid} for {seconds:.1f}s"

    def freeze_worker(self) -> str:
        """A supervisor with all its children, as when a machine sleeps; or the supervisor alone."""
        supervisor, seconds = self.chance.choice(self.crew), self.past_the_lease()
        if self.chance.random() < 0.5:
            pid = supervisor.pid
            send(pid, signal.SIGSTOP)
            self.mending.append((time.monotonic() + seconds, lambda: send(pid, signal.SIGCONT) and None))
            return f"{supervisor.name} alone for {seconds:.1f}s"
        pids = [supervisor.pid, *supervisor.children()]
        for pid in pids:
            send(pid, signal.SIGSTOP)
        self.mending.append((time.monotonic() + seconds, lambda: [send(pid, signal.SIGCONT) for pid in pids] and None))
        return f"{supervisor.name} and its children for {seconds:.1f}s"

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
        self.mending.append((time.monotonic() + seconds, lambda: self.network.tell("pass")))
        return f"for {seconds:.1f}s"

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
        return str(pid) if pid and send(pid, signal.SIGKILL) else None

    def restart_server(self) -> str:
        assert self.server is not None
        self.server.restart_hard()
        return "hard"


def send(pid: int, number: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, number)
        return True
    return False
