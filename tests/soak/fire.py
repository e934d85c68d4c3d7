"""One soak: start everything, break things while tasks run, make peace, wait until all is quiet, and look."""

from __future__ import annotations

import json
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from django.db.models import Q

from tests.soak import journal
from tests.soak.calm import Calm, lawful_producer
from tests.soak.crew import Network, PipedSupervisor, Supervisor, skewing_library
from tests.soak.database import DATABASES, PostgreSQL, SQLite, tried
from tests.soak.history import History, read_events, read_rows
from tests.soak.hostile import HostileProducer, grant_role
from tests.soak.locks import RowLocks
from tests.soak.nemesis import Nemesis
from tests.soak.permits import SETTINGS as LANES
from tests.soak.permits import complaints as wrong_with_lanes
from tests.soak.permits import told as told_of_lanes
from tests.soak.renewals import Lookout
from tests.soak.schedules import CALL, ScheduleCohort, Slots
from tests.soak.vitals import Sample, grown, left_open, sample, unexplained

TURN_SECONDS = 0.02
PEACE_SECONDS = 180.0
VACUUM_SECONDS = 20.0
TABLES = ("task", "taskevent", "taskresult")
PIPED_CHILDREN = 1
CALM_TASKS = {"postgresql": 300, "sqlite": 100}
TIMEOUT, TIMEOUT_GRACE = 20.0, 1.0


DROPPED = re.compile(
    r"Exception ignored in.*: .*\nTraceback .*\n(?:  .*\n|\n)*django_tasks_retry\.errors\.Task(?:Cancelled|Timeout).*\n"
)
"""An interruption that came while a `__del__` or the callback of a weak reference ran, or that Python gave to a thread
which the task was just starting: it is dropped, as if the function had not yielded to it."""


def traceback_in(log: str) -> str:
    """The first that tells of an error, and what follows it."""
    return DROPPED.sub("", log).partition("\nTraceback")[2]


@dataclass(frozen=True, slots=True)
class Plan:
    tasks: int
    seed: int
    workflows: int = 20
    laned: int = 500
    database: str = "postgresql"
    lease: float = 1.0
    supervisors: int = 2
    children: int = 4
    threads: int = 8
    seconds: float = 3600.0
    pace: float = 1.0
    untimed: bool = False
    partitioned: bool = False
    folder: Path = field(default_factory=Path)


@dataclass(slots=True)
class Outcome:
    """The records of a soak, to be judged."""

    history: History
    nemesis: Nemesis
    refused: Counter[str]
    operator_deeds: dict[str, int]
    fire_seconds: float
    peace_seconds: float
    complaints: list[str]
    samples: list[Sample]
    slots: Slots
    lanes: list[str]


@dataclass(slots=True)
class Round:
    """Something done every so often while the fire burns."""

    seconds: float
    do: Callable[[], object]
    due: float = 0.0

    def turn(self) -> None:
        if time.monotonic() >= self.due:
            self.do()
            self.due = time.monotonic() + self.seconds


def set_up(plan: Plan, database: PostgreSQL | SQLite) -> None:
    """This process reaches the database directly."""
    retry = {"RETRY_BASE": 0.1, "RETRY_CAP": 1.0}
    options = {"LEASE": plan.lease, "TIMEOUT": TIMEOUT, "TIMEOUT_GRACE": TIMEOUT_GRACE, "LANES": LANES} | retry
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "tests.soak.settings",
        "SOAK_DATABASE": json.dumps(database.direct()),
        "SOAK_OPTIONS": json.dumps(options),
        "SOAK_JOURNAL": str(plan.folder / "journal"),
    }
    import django
    from django.core.management import call_command

    django.setup()
    call_command("migrate", verbosity=0)
    if isinstance(database, PostgreSQL):
        grant_role(database)
    if plan.partitioned:
        from django_tasks_retry.taskqueue.retention.convert import partition_history
        from django_tasks_retry.taskqueue.retention.layout import Period

        # By hours: a soak is too short to see a day end.
        partition_history("default", Period.HOUR, ["default"])


def crew_of(plan: Plan, place: dict[str, Any]) -> list[Supervisor]:
    """The workers of the plan, and a small one whose log nobody reads at times. The first and that one live long."""
    variables = {"SOAK_DATABASE": json.dumps(place)}
    # On SQLite the host's clock is the queue's, and it has but one.
    shim = skewing_library(plan.folder) if plan.database == "postgresql" else None

    def worker(kind: type[Supervisor], number: int, children: int, is_spared: bool) -> Supervisor:
        arguments = ("--processes", str(children), "--threads", str(plan.threads), "--async-slots", "10")
        arguments += ("--poll", "100ms", "--grace", "10s")
        return kind(f"worker{number + 1}", plan.folder, arguments, variables, number, shim, is_spared)

    crew = [worker(Supervisor, number, plan.children, number == 0) for number in range(plan.supervisors)]
    return [*crew, worker(PipedSupervisor, plan.supervisors, PIPED_CHILDREN, True)]


def soak(plan: Plan) -> Outcome:
    database = DATABASES[plan.database](plan.folder)
    network, crew = None, []
    try:
        set_up(plan, database)
        network = Network(database.port) if database.port else None
        crew = crew_of(plan, database.place(network.port if network else None))
        for supervisor in crew:
            supervisor.start()
        server = database if isinstance(database, PostgreSQL) else None
        locks = RowLocks(server) if server else None
        return Fire(plan, Nemesis(plan.seed, plan.lease, crew, network, server, locks, plan.pace), database).run()
    finally:
        for supervisor in crew:
            supervisor.end()
        if network:
            network.close()
        database.remove()


class Fire:
    def __init__(self, plan: Plan, nemesis: Nemesis, database: PostgreSQL | SQLite) -> None:
        from tests.soak.lanes import LaneCohort
        from tests.soak.people import Operator, Producer, Watch
        from tests.soak.workflows import WorkflowCohort

        self.plan, self.nemesis = plan, nemesis
        self.producer = Producer(plan.tasks, plan.lease, random.Random(f"{plan.seed} tasks"))
        self.hostile = HostileProducer(database, random.Random(f"{plan.seed} hostile"))
        lawful = lawful_producer(CALM_TASKS[plan.database], plan.lease, random.Random(f"{plan.seed} calm"))
        self.operator = Operator(random.Random(f"{plan.seed} operator"), self.hostile.tried)
        self.watch = Watch()
        self.lookout = Lookout(plan.lease)
        self.calm = Calm(plan.lease, lawful, self.hostile, nemesis.locks, nemesis.crew, self.look)
        self.schedules, self.workflows = ScheduleCohort(), WorkflowCohort(plan.workflows)
        self.lanes = LaneCohort(plan.laned, random.Random(f"{plan.seed} lanes"))
        self.samples: list[Sample] = []
        self.left: int | None = None
        self.is_nearly_done = False
        self.began = time.monotonic()

    def run(self) -> Outcome:
        wall = self.wall_clock()
        self.burn()
        fire = time.monotonic() - self.began
        self.nemesis.make_peace()
        self.schedules.stop()
        self.lanes.stop()
        complaints = self.rest()
        peace = time.monotonic() - self.began - fire
        complaints += self.stay_calm() if not complaints else []
        complaints += [*self.operator.failures, *grown(self.samples), *self.hygiene(), *self.audited(), *self.stop()]
        slots = self.schedules.slots()
        complaints += [*slots.complaints(), *self.workflows.complaints()]
        sys.stderr.write(f"{self.workflows}\n")
        history = self.history(wall, slots)
        members = self.lanes.members(history.events)
        from tests.soak.waits import complaints as wrong_with_waits

        complaints += [*wrong_with_lanes(members), *wrong_with_waits()]
        refused, done, lanes = self.hostile.refused, dict(self.operator.deeds), list(told_of_lanes(members))
        return Outcome(history, self.nemesis, refused, done, fire, peace, complaints, self.samples, slots, lanes)

    def history(self, wall: float, slots: Slots) -> History:
        known = [self.producer, self.watch, self.hostile, self.calm.producer, self.lanes]
        away = [(one.began, one.ended) for one in self.nemesis.outages if not one.who] + self.calm.stalls.found
        return History(
            self.plan.lease,
            {task: number for one in known for task, number in one.acknowledged.items()},
            {number for one in known for number in one.unsure}
            | {CALL, *(-slot for slot in slots.runs)}
            | self.workflows.numbers(),
            read_rows(self.hostile.numbers),
            read_events(),
            journal.read(self.plan.folder / "journal"),
            wall,
            self.watch.enqueued,
            [(began + wall, ended + wall) for began, ended in away],
            dict(self.hostile.tried),
            set(self.nemesis.locks.held) if self.nemesis.locks else set(),
            [(began + wall, ended + wall) for began, ended in filter(None, [self.calm.window])],
            list(self.lookout.seen.values()),
            TIMEOUT_GRACE,
            self.plan.untimed,
            self.plan.database == "sqlite",
        )

    def wall_clock(self) -> float:
        """The time of the queue's clock when the monotonic one shows 0. The latest of a few readings is the nearest."""
        from django_tasks_retry import clock

        return min(clock.now("default").timestamp() - time.monotonic() for _ in range(20))

    def burn(self) -> None:
        """Until nearly all is done: the last few would be fought over for ever."""
        operator = threading.Thread(target=self.operator.work, daemon=True)
        operator.start()
        rounds = [
            Round(0.25, self.fill),
            Round(1.0, self.watch.turn),
            Round(1.0, self.hostile.turn),
            Round(1.0, self.look),
            Round(0.5, self.workflows.turn),
            Round(0.5, self.lanes.turn),
            Round(1.0, self.take_samples),
            Round(30.0, self.say_how_far, self.began + 30.0),
        ]
        while time.monotonic() < self.began + self.plan.seconds and not self.is_nearly_done:
            self.nemesis.turn()
            for each in rounds:
                each.turn()
            time.sleep(TURN_SECONDS)
        self.operator.is_done.set()
        operator.join()

    def fill(self) -> None:
        paths = tried(self.unfinished_paths)
        self.left = None if paths is None else paths.total()
        is_asked = self.producer.is_done and self.workflows.is_done and self.lanes.is_done
        self.is_nearly_done = is_asked and self.left is not None and self.left < 20
        self.producer.turn(None if paths is None else beside_cohorts(paths))

    def look(self) -> None:
        tried(self.lookout.look)

    def take_samples(self) -> None:
        now = time.monotonic()
        found = [sample(supervisor.name, supervisor.pid, now) for supervisor in self.nemesis.crew]
        self.samples += [one for one in found if one]

    def say_how_far(self) -> None:
        seconds = time.monotonic() - self.began
        asked = {"tasks": self.producer.next_number, "of lanes": self.lanes.asked, "workflows": self.workflows.asked}
        text = ", ".join(f"{number:,} {what}" for what, number in asked.items())
        deeds = sum(self.nemesis.deeds.values())
        sys.stderr.write(f"{seconds:5.0f} s: asked for {text}; {self.left} are left, {deeds:,} faults\n")

    def unfinished(self) -> int:
        return self.unfinished_paths().total()

    def unfinished_paths(self) -> Counter[str]:
        """By function. In the words of the indexes: the table, in the end, is large."""
        from django_tasks_retry.models import Task

        unfinished = Q(status="PENDING") | Q(status="RUNNING")
        return Counter(Task.objects.filter(unfinished).values_list("func_path", flat=True))

    def rest(self) -> list[str]:
        """With nothing broken any more, everything must be done soon."""
        for supervisor in self.nemesis.crew:
            if not supervisor.is_alive():
                supervisor.start()
        while not self.producer.is_done:
            self.producer.enqueue()
        while not self.workflows.is_done:
            self.workflows.ask()
        deadline = time.monotonic() + PEACE_SECONDS
        while tried(self.unfinished) != 0:
            if time.monotonic() > deadline:
                return [f"I7 {tried(self.unfinished)} tasks did not finish in {PEACE_SECONDS:g} s of peace"]
            time.sleep(0.05)
            self.look()
        return []

    def stay_calm(self) -> list[str]:
        is_done = self.calm.run(lambda: tried(self.unfinished) == 0, time.monotonic() + PEACE_SECONDS)
        found = [] if is_done else [f"I7 {tried(self.unfinished)} tasks did not finish in {PEACE_SECONDS:g} s of calm"]
        return found + self.calm.complaints()

    def hygiene(self) -> list[str]:
        if self.nemesis.server is None:
            return []
        from django.db import connection

        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*), count(*) FILTER (WHERE state LIKE 'idle in transaction%' "
                "AND state_change < clock_timestamp() - interval '1 second') "
                "FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()"
            )
            open_now, idle = cursor.fetchone()
        children = self.plan.supervisors * self.plan.children + PIPED_CHILDREN
        budget = len(self.nemesis.crew) * 2 + children * (self.plan.threads + 2)
        return left_open(open_now, budget, idle, self.lasting_dead_rows())

    def audited(self) -> list[str]:
        """What `manage.py tasks verify` says about the same rows."""
        from django_tasks_retry.verify.audit import verify

        [*_pages, audit] = verify("default", self.plan.lease)
        return [f"verify: {breach.rule} {breach.task} {breach.text}" for breach in audit.breaches[:20]]

    def lasting_dead_rows(self) -> int:
        """Count the dead rows that vacuums leave for longer than a poll or an ending session needs them."""
        deadline = time.monotonic() + VACUUM_SECONDS
        while (left := self.dead_rows()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return left

    def dead_rows(self) -> int:
        """Count the dead rows that a vacuum leaves now."""
        from django.db import connection

        named = [f"django_tasks_retry_{table}" for table in TABLES]
        with connection.cursor() as cursor:
            # The server's own vacuum may hold a table for longer than a worker would wait.
            cursor.execute("SET statement_timeout = 0; SET lock_timeout = 0")
            cursor.execute(f"VACUUM {', '.join(named)}")
            cursor.execute("SELECT sum(n_dead_tup) FROM pg_stat_user_tables WHERE relname = ANY (%s)", [named])
            return int(cursor.fetchone()[0])

    def stop(self) -> list[str]:
        """Each worker still obeys, and none has reported an error that nobody caused."""
        complaints = []
        for supervisor in self.nemesis.crew:
            code = supervisor.stop(20)
            if code != 0:
                last = supervisor.output.read_text(encoding="utf-8", errors="replace")[-1000:]
                complaints.append(f"I8 {supervisor.name} ended with {code} after SIGTERM; its last words: {last}")
        for log in sorted(self.plan.folder.glob("*.log")):
            text = log.read_text(encoding="utf-8", errors="replace")
            lines = traceback_in(text)
            complaints += [f"I8 a traceback in {log}: {lines[:3000]}"] if lines else []
            complaints += unexplained(text.splitlines(), self.hostile.tried)
        return complaints


def beside_cohorts(paths: Counter[str]) -> int:
    """Lanes and workflows hold back what they will; the others go on beside them."""
    from tests.soak import lanes, workflows

    return paths.total() - sum(paths[path] for path in (*lanes.PATHS, *workflows.PATHS))
