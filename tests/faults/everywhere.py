"""One life of a worker, from its start to its end, and everything that can happen to it at one of its statements."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg

from django_tasks_retry.clock import Now
from django_tasks_retry.models import Schedule, Task
from tests.proxy import Cut
from tests.worker import tasks
from tests.worker.harness import WorkerProcess, story, wait_for
from tests.worker.trouble import Server

ALL = os.environ.get("FAULTS") == "all"
LEASE = 2.0
NAMED = {"PGAPPNAME": "disturbed"}
GREETING = "Ctrl-C stops gracefully"
SLOT = "a life's slot"


def enqueue_a_life() -> list[Task]:
    """Work of each kind: done, retried, atomic; in a thread and in the loop; and a slot of a schedule, which is due."""
    name = f"{time.monotonic_ns()}"
    Schedule.objects.create(name=SLOT, task=tasks.canary, every=3600)
    Schedule.objects.update(next_at=Now())
    calls = [(tasks.afail_once, []), (tasks.canary, [name]), (tasks.write_atomically, [name])]
    return [Task.objects.enqueue(function, arguments, max_attempts=9) for function, arguments in calls]


SPARE = partial(Cut, spare=True)


@dataclass(frozen=True, slots=True)
class Deed:
    """The fault at a statement. `codes` are the ways in which the worker may end after it has greeted."""

    fault: str
    does: Callable[[WorkerProcess, Server], object] | None = None
    cut: Callable[..., Cut] = SPARE
    codes: tuple[int, ...] = (0,)
    loses_attempts: bool = False
    freezes: bool = False

    def at(self, nth: int, worker: Callable[[], WorkerProcess], server: Server) -> Cut:
        does = self.does
        return self.cut(nth=nth, meanwhile=(lambda: does(worker(), server)) if does else None)


def signal_worker(number: int, times: int = 1) -> Callable[[WorkerProcess, Server], None]:
    def send(worker: WorkerProcess, server: Server) -> None:
        for _ in range(times):
            worker.signal(number)

    return send


def kill_children(worker: WorkerProcess, server: Server) -> None:
    for pid in worker.children():
        os.kill(pid, signal.SIGKILL)


def kill_backends(worker: WorkerProcess, server: Server) -> None:
    with psycopg.connect(**server.direct(), autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", [NAMED["PGAPPNAME"]]
        )


def cut_at_a_byte(nth: int, **how: Any) -> Cut:
    """At another one in each statement."""
    return Cut(nth=nth, passing=0.01 + nth * 0.377 % 0.98, **how)


KILL = signal_worker(signal.SIGKILL)
DEEDS = {
    "its child is killed": Deed("worker_killed", kill_children, loses_attempts=True),
    "the worker is killed before the statement": Deed("worker_killed", KILL, Cut, (-9,), loses_attempts=True),
    "the worker is killed after the statement": Deed(
        "worker_killed", KILL, partial(Cut, reply=True), (-9,), loses_attempts=True
    ),
    "the worker is frozen": Deed(
        "frozen_past_the_lease",
        lambda worker, server: worker.signal_all(signal.SIGSTOP),
        loses_attempts=True,
        freezes=True,
    ),
    "it is asked to stop": Deed("asked_to_stop", signal_worker(signal.SIGTERM)),
    "it is told to stop at once": Deed("told_to_stop_at_once", signal_worker(signal.SIGTERM, 2), codes=(0, 1)),
    "the request is cut": Deed("request_cut", cut=Cut),
    "the reply is cut": Deed("reply_cut", cut=partial(Cut, reply=True)),
    "the request is cut at a byte": Deed("request_cut", cut=cut_at_a_byte),
    "the reply is cut at a byte": Deed("reply_cut", cut=partial(cut_at_a_byte, reply=True)),
    "backends are killed": Deed("server_restarts", kill_backends),
    "the statement is refused": Deed("error_codes", cut=partial(Cut, error="57014")),
    "the statement is done and reported as failed": Deed("error_codes", cut=partial(Cut, error="XX000", reply=True)),
}


def slot_is_whole() -> bool:
    """The slot has its task, and the schedule has moved on; or neither, where the worker ended before its tick."""
    schedule = Schedule.objects.get(pk=SLOT)
    return Task.objects.filter(schedule=SLOT).count() == (1 if schedule.last_outcome == "enqueued" else 0)


def finished_once(enqueued: list[Task]) -> bool:
    done = {task.pk: task.status for task in Task.objects.all()}
    return all(done[task.pk] == "SUCCESS" and story(task).count("completed") == 1 for task in enqueued)


def all_done() -> bool:
    return not Task.objects.unfinished().exists()


def live(start: Any, worker: WorkerProcess, deed: Deed, cut: Cut) -> int:
    """Until everything is done: by the worker, and where that has ended before, by another. Its exit code."""
    if deed.freezes:
        wait_for(lambda: cut.done.is_set() or worker.process.poll() is not None, "the deed or the end")
        outlive(start, worker)
    code = worker.exit_code()
    finish_with_another(start)
    return code


def outlive(start: Any, worker: WorkerProcess) -> None:
    """Another works while this one is frozen, past its lease. Locks of an atomic task may hold it up till the thaw."""
    if worker.process.poll() is None:
        other, thaw = start(lease=LEASE), time.monotonic() + 3 * LEASE
        wait_for(lambda: all_done() or time.monotonic() > thaw, "everything finished, or the thaw")
        worker.signal_all(signal.SIGCONT)
        wait_for(all_done, "everything finished", 30)
        other.end()


def finish_with_another(start: Any) -> None:
    if not all_done():
        other = start(lease=LEASE)
        wait_for(all_done, "everything finished", 30)
        other.end()
