"""Points inside a worker where something may be made to go wrong, once: `FAILPOINT="Books.write:before:kill"`.

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
    "Supervisor.sign_on": "supervisor",
    "Supervisor.hear": "supervisor",
    "Supervisor.say_alive": "supervisor",
    "Supervisor.bury_the_dead": "supervisor",
    "Supervisor.carry_out_last_will": "supervisor",
    "Nursery.staff": "nursery",
    "Keeper.turn": "keeper",
    "Heirs.settle": "heirs",
    "Housekeeper.turn": "housekeeping",
    "Listener.open": "listener",
    "Child.gather": "child",
    "Child.claim_more": "child",
    "Child.take_on": "child",
    "Child.settle": "child",
    "Child.watch_running": "child",
    "Child.tell_tally": "child",
    "Claimer.claim": "claimer",
    "Books.write": "books",
    "Board.started": "board",
    "Board.ended": "board",
    "Counts.turn": "counts",
    "Teller.tell": "teller",
}
"""Where they are: a method, and its module in django_tasks_retry.worker."""

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
