"""One soak: start everything, break things while tasks run, make peace, wait until all is quiet, and look."""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.soak import journal
from tests.soak.crew import Network, Supervisor
from tests.soak.database import DATABASES, PostgreSQL, SQLite, tried
from tests.soak.history import History, read_events, read_rows
from tests.soak.nemesis import Nemesis

TURN_SECONDS = 0.02
PEACE_SECONDS = 60.0
OPERATOR_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Plan:
    tasks: int
    seed: int
    database: str = "postgresql"
    lease: float = 1.0
    supervisors: int = 2
    children: int = 4
    threads: int = 8
    seconds: float = 3600.0
    folder: Path = field(default_factory=Path)


@dataclass(slots=True)
class Outcome:
    """What a soak leaves to be judged."""

    history: History
    nemesis: Nemesis
    operator_deeds: dict[str, int]
    fire_seconds: float
    peace_seconds: float
    complaints: list[str]


def set_up(plan: Plan, database: PostgreSQL | SQLite) -> None:
    """This process reaches the database directly."""
    options = {"LEASE": plan.lease, "RETRY_BASE": 0.1, "RETRY_CAP": 1.0}
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


def crew_of(plan: Plan, place: dict[str, Any]) -> list[Supervisor]:
    arguments = ("--processes", str(plan.children), "--threads", str(plan.threads), "--async-slots", "10")
    arguments += ("--poll", "100ms", "--grace", "10s")
    variables = {"SOAK_DATABASE": json.dumps(place)}
    return [Supervisor(f"worker{n + 1}", plan.folder, arguments, variables) for n in range(plan.supervisors)]


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
        return Fire(plan, Nemesis(plan.seed, plan.lease, crew, network, server)).run()
    finally:
        for supervisor in crew:
            supervisor.end()
        if network:
            network.close()
        database.remove()


class Fire:
    def __init__(self, plan: Plan, nemesis: Nemesis) -> None:
        from tests.soak.people import Operator, Producer

        self.plan, self.nemesis = plan, nemesis
        self.producer = Producer(plan.tasks, plan.lease, random.Random(f"{plan.seed} tasks"))
        self.operator = Operator(random.Random(f"{plan.seed} operator"))
        self.began = time.monotonic()

    def run(self) -> Outcome:
        wall = self.wall_clock()
        self.burn()
        fire = time.monotonic() - self.began
        self.nemesis.make_peace()
        complaints = self.rest()
        peace = time.monotonic() - self.began - fire
        complaints += self.hygiene() + self.stop()
        history = History(
            self.plan.lease, self.producer.acknowledged, self.producer.unsure, read_rows(), read_events(),
            journal.read(self.plan.folder / "journal"), wall,
        )  # fmt: skip
        return Outcome(history, self.nemesis, dict(self.operator.deeds), fire, peace, complaints)

    def wall_clock(self) -> float:
        """What the queue's clock shows when the monotonic one shows 0. The latest of a few readings is the nearest."""
        from django_tasks_retry import clock

        return min(clock.now("default").timestamp() - time.monotonic() for _ in range(20))

    def burn(self) -> None:
        """Until nearly all is done: the last few would be fought over for ever."""
        looks, waves = 0.0, 0.0
        while time.monotonic() < self.began + self.plan.seconds:
            self.nemesis.turn()
            if time.monotonic() > waves:
                self.operator.turn()
                waves = time.monotonic() + OPERATOR_SECONDS
            if time.monotonic() > looks:
                unfinished = tried(self.unfinished)
                looks = time.monotonic() + 0.25
                if unfinished is not None and unfinished < 20 and self.producer.is_done:
                    return
                self.producer.turn(unfinished)
            time.sleep(TURN_SECONDS)

    def unfinished(self) -> int:
        from django_tasks_retry.models import Task

        return Task.objects.unfinished().count()

    def rest(self) -> list[str]:
        """With nothing broken any more, everything must be done soon."""
        for supervisor in self.nemesis.crew:
            if not supervisor.is_alive():
                supervisor.start()
        while not self.producer.is_done:
            self.producer.enqueue()
        deadline = time.monotonic() + PEACE_SECONDS
        while tried(self.unfinished) != 0:
            if time.monotonic() > deadline:
                return [f"I7 {tried(self.unfinished)} tasks did not finish in {PEACE_SECONDS:g} s of peace"]
            time.sleep(0.05)
        return []

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
        budget = self.plan.supervisors * (2 + self.plan.children * (self.plan.threads + 2))
        complaints = [f"I8 {open_now} connections, {budget} budgeted"] if open_now > budget else []
        return complaints + ([f"I8 {idle} transactions left open"] if idle else [])

    def stop(self) -> list[str]:
        """Each worker still obeys, and none has written a traceback of its own."""
        complaints = []
        for supervisor in self.nemesis.crew:
            code = supervisor.stop(20)
            if code != 0:
                complaints.append(f"I8 {supervisor.name} ended with {code} after SIGTERM")
        logs = sorted(self.plan.folder.glob("*.log"))
        return complaints + [f"I8 a traceback in {log}" for log in logs if "\nTraceback" in log.read_text()]
