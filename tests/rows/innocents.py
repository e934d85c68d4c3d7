"""Innocent neighbours of every kind. Each must make progress, whatever other rows hold."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

from django.db import transaction
from django.test import Client

from django_tasks_retry import clock, registry, signal, taskqueue
from django_tasks_retry.analysis.alerts import causes as alert_causes
from django_tasks_retry.analysis.releases import suspects
from django_tasks_retry.display.scope import current_scope, read_standing
from django_tasks_retry.metrics import scrape
from django_tasks_retry.models import Task
from django_tasks_retry.taskqueue import ClaimMemory, Stat, Sweep
from django_tasks_retry.testing.inline import run_inline
from tests import tasks
from tests.cli.conftest import tasks_command
from tests.schedules.steps import plan
from tests.steps import Clock, now_of
from tests.workflows import tasks as workflows

BASE = "/admin/django_tasks_retry/"
PAGES = (
    "overview/", "task/", "task/?status=ready", "failuregroup/", "queue/", "worker/", "schedule/", "flowlimit/",
    "taskfunction/",
)  # fmt: skip
COMMANDS = (
    ("queues",), ("workers",), ("lanes",), ("schedules",), ("failures",), ("list",), ("stats",), ("check",),
    ("events",), ("verify",), ("doctor",), ("late",), ("effects",), ("preflight",),
)  # fmt: skip
FACTS = {"host": "h", "pid": 1, "version": "1", "processes": 1, "slots": 3, "queues": ["*"], "schedules": []}
WORKER = "sound"


class Innocents:
    """Made before the odd rows are; `failures()` plays their lives and tells which did not get on."""

    def __init__(self, using: str, client: Client) -> None:
        self.using, self.client, self.gone = using, client, timedelta(0)
        registry.discover()
        taskqueue.register_worker(WORKER, "default", tasks=registry.known_paths(), **FACTS)
        plan("sound", every=timedelta(minutes=1))
        self.waiting = Task.objects.enqueue(workflows.approval, ["innocent"])
        self.old = Task.objects.enqueue(tasks.noop)
        self.run(self.old)

    def failures(self) -> list[str]:
        lives = (
            self.supervisor, self.run_tasks, self.cancelled, self.expired, self.recovered, self.watched, *self.pages(),
            *self.commands(), self.metrics, self.pruned,
        )  # fmt: skip
        return [error for life in lives if (error := self.error_of(life))]

    def error_of(self, life: Callable[[], None]) -> str:
        try:
            with transaction.atomic(using=self.using):
                life()
        except Exception as error:  # noqa: BLE001 - whatever it is, the neighbour got no further
            frames = traceback.extract_tb(error.__traceback__)
            places = " < ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[:-6:-1])
            name = " ".join([getattr(life, "func", life).__name__, *getattr(life, "args", ())])
            return f"{name}: {type(error).__name__}: {str(error)[:300]} ({places})"
        return ""

    def travel(self, **units: float) -> None:
        self.gone += timedelta(**units)
        clock.shift(self.gone, self.using)

    def run(self, *wanted: Task) -> None:
        """Claim and finish as workers do, until these have succeeded or nothing is due."""
        clock, left, idle = Clock(), {task.pk for task in wanted}, 0
        memory = ClaimMemory(clock=clock)
        while left and idle < 3:
            clock.advance()
            woken, leases = Sweep().everything(), taskqueue.claim(f"{WORKER}/1", limit=500, memory=memory)
            for lease in leases:
                run_inline(lease)
            left -= set(Task.objects.filter(pk__in=left, status="SUCCESS").values_list("pk", flat=True))
            idle = 0 if woken or leases else idle + 1
        assert not left, list(Task.objects.filter(pk__in=left).values_list("func_path", "status"))

    def supervisor(self) -> None:
        assert WORKER in [peer.id for peer in taskqueue.heartbeat(WORKER, "default", listening=True)]
        taskqueue.find_pending_maintenance()
        taskqueue.add_stats([Stat("default", "tests.tasks.noop", 1, lane="tenant-1")])
        taskqueue.tick_breakers()
        list(taskqueue.sync_schedules())
        taskqueue.stop_vanished()
        Task.objects.enqueue(tasks.noop)
        assert taskqueue.is_work_due(ClaimMemory())
        assert taskqueue.is_work_left(ClaimMemory())

    def run_tasks(self) -> None:
        """Tasks of every kind: by a schedule, plain, in lanes, a workflow, one that waits for a signal, and a retry."""
        self.travel(seconds=61)
        taskqueue.tick(actor=WORKER)
        scheduled = list(Task.objects.filter(schedule="sound"))
        assert len(scheduled) == 1
        signal("innocent", "yes")
        self.run(
            *scheduled,
            *(Task.objects.enqueue(tasks.noop, priority=priority) for priority in (100, 0, -100)),
            Task.objects.enqueue(tasks.sync, [1]),
            Task.objects.enqueue(tasks.call_api, ["innocent"]),
            Task.objects.enqueue(tasks.post, [1, 1]),
            Task.objects.enqueue(tasks.heavy),
            Task.objects.enqueue(workflows.fan_out, [[1, 2]]),
            self.waiting,
            now_of(self.old).retry(),
        )

    def cancelled(self) -> None:
        parent = Task.objects.enqueue(workflows.fan_out, [[3]])
        taskqueue.cancel(list(Task.objects.unfinished().values_list("pk", flat=True)))
        assert now_of(parent).status == "CANCELLED"

    def expired(self) -> None:
        late = Task.objects.enqueue(tasks.noop, expires=timedelta(seconds=1))
        self.travel(seconds=2)
        taskqueue.expire()
        assert now_of(late).status == "CANCELLED"

    def recovered(self) -> None:
        lost = Task.objects.enqueue(tasks.noop, priority=100)
        taskqueue.claim("dead/1", limit=500)
        self.travel(seconds=120)
        taskqueue.recover()
        assert now_of(lost).status == "PENDING"

    def watched(self) -> None:
        """Look for causes of alerts, and for functions that fail since a release."""
        list(alert_causes(read_standing(current_scope())))
        list(suspects("default", self.using))

    def pages(self) -> list[Callable[[], None]]:
        task = f"task/{self.old.pk}/change/"
        return [partial(self.page, page) for page in (*PAGES, task, f"{task}?late=1", "schedule/sound/change/")]

    def page(self, page: str) -> None:
        assert self.client.get(BASE + page).status_code == 200

    def commands(self) -> list[Callable[[], None]]:
        old = str(self.old.pk)
        return [partial(self.command, *words) for words in (*COMMANDS, ("show", old), ("late", old))]

    def command(self, *words: str) -> None:
        answer = tasks_command(*words)
        assert answer.code in (0, 1, 4), answer.err[-300:]

    def metrics(self) -> None:
        assert "default" in scrape()
        assert self.client.get("/tasks/live").status_code == 200
        assert self.client.get("/tasks/ready").status_code in (200, 503)

    def pruned(self) -> None:
        self.travel(days=400)
        taskqueue.forget_stats()
        taskqueue.forget_skipped()
        taskqueue.forget_signals()
        taskqueue.forget_idle()
        sum(taskqueue.prune())
        assert not Task.objects.filter(pk=self.old.pk).exists()
