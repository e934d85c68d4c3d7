"""At each step inside a worker it is killed, frozen, asked to stop, or something raises: nothing is lost or done twice.

An ordinary run tries two steps in each way; `FAULTS=all` tries every step, before and after.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from django_tasks_retry.models import TaskEvent
from tests.faults.everywhere import ALL, LEASE, enqueue_a_life, finish_with_another, finished_once, outlive
from tests.faults.failpoints import ACTIONS, POINTS, WHENS
from tests.faults.marker import showing
from tests.worker.harness import wait_for

EVERY = list(product(POINTS, WHENS))
SAMPLE = [("Outbox.write", "before"), ("Child.start_attempts", "after")]
WAYS = {
    "kill": showing("kill", "worker_killed", case="kill"),
    "stop": showing("stop", "frozen_past_the_lease", case="stop"),
    "term": showing("term", "asked_to_stop", case="term"),
    "raise": pytest.param("raise", id="an_error_of_our_own"),
}
CODES = {"kill": (0, -9), "stop": (0,), "term": (0, -15), "raise": (0, 1)}


def frozen(worker) -> bool:
    return state_of(worker.pid) == "T"


def state_of(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


@pytest.mark.parametrize("action", [WAYS[action] for action in ACTIONS])
@pytest.mark.parametrize(("point", "when"), EVERY if ALL else SAMPLE)
def test_at_any_step(start, effects, point, when, action):
    enqueued = enqueue_a_life()
    worker = start("--drain", variables={"FAILPOINT": f"{point}:{when}:{action}"}, lease=LEASE)
    if action == "stop":
        wait_for(lambda: frozen(worker) or worker.process.poll() is not None, "the worker frozen, or its end")
        outlive(start, worker)
    code = worker.exit_code()
    finish_with_another(start)
    assert effects.file.with_name("effects.failpoint").exists(), "the point was reached"
    assert finished_once(enqueued)
    assert code in CODES[action]
    if action == "term":
        assert not TaskEvent.objects.filter(kind="task.lease_lost").exists()
