"""Points inside a worker where something may be made to go wrong, once: `FAILPOINT="Outbox.write:before:kill"`.

The product knows nothing of them: without the variable nothing is changed, not even a check is left behind.
Workers that are given the variable install the app of armed.py (tests/worker/settings.py).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from functools import wraps
from importlib import import_module
from typing import Any

POINTS = {
    "Supervisor.register": "supervisor.supervisor",
    "Supervisor.wait_for_events": "supervisor.supervisor",
    "Supervisor.send_heartbeat": "supervisor.supervisor",
    "Supervisor.reap_children": "supervisor.supervisor",
    "Supervisor.shut_down": "supervisor.supervisor",
    "ChildPool.fill": "supervisor.pool",
    "LeaseRenewal.tick": "supervisor.leases",
    "Watchdog.tick": "supervisor.leases",
    "OrphanRecovery.tick": "supervisor.orphans",
    "Maintenance.tick": "supervisor.maintenance.maintenance",
    "Listener.open": "supervisor.dispatch",
    "StatsWriter.tick": "shared.outcomes",
    "Child.collect": "child.child",
    "Child.claim": "child.child",
    "Child.start_attempts": "child.child",
    "Child.note_recorded": "child.child",
    "Timeouts.tick": "child.timeouts",
    "Claimer.claim": "child.claimer",
    "Outbox.write": "child.outbox",
    "InFlightTable.start": "shared.inflight",
    "InFlightTable.end": "shared.inflight",
    "Child.send_stats": "child.child",
    "SignalThread.send": "child.pipeline",
}
"""Their place: a method, and its module in django_tasks_retry.worker."""

WHENS = ("before", "after")
ACTIONS = ("kill", "stop", "term", "raise")
SUPERVISOR = os.getpid()  # this module is loaded before a worker forks


class Failpoint(Exception):
    """Raised at a point."""


def act(action: str) -> None:
    match action:
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "stop":
            os.killpg(0, signal.SIGSTOP)
        case "term":
            os.kill(SUPERVISOR, signal.SIGTERM)
        case "raise":
            raise Failpoint


def first_time() -> bool:
    """For all processes of all workers of a test together."""
    try:
        os.close(os.open(os.environ["EFFECTS"] + ".failpoint", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def arm(point: str, when: str, action: str) -> None:
    owner, _, name = point.partition(".")
    kind = getattr(import_module(f"django_tasks_retry.worker.{POINTS[point]}"), owner)
    setattr(kind, name, disturbed(getattr(kind, name), when, action))


def disturbed(method: Callable[..., Any], when: str, action: str) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        if when == "before" and first_time():
            act(action)
        result = method(*args, **kwargs)
        if when == "after" and first_time():
            act(action)
        return result

    return call
