"""The cost of a fault, by the records of the hosts and the rows of the database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from .cluster import Cluster
from .load import LEASE, Load

KNOWN = "SELECT id::text FROM django_tasks_retry_task"
TWICE = """
SELECT count(*) FROM (
    SELECT task_id FROM django_tasks_retry_taskevent
    WHERE kind IN ('task.completed', 'task.cancelled') OR (kind = 'task.failed' AND data ->> 'terminal' = 'true')
    GROUP BY task_id HAVING count(*) > 1
) AS twice
"""
SHORTEST_GAP = 1.0
NOTICED_SECONDS = 0.5
"""A child looks at its leases four times a second."""
UNFINISHED = "SELECT count(*) FROM django_tasks_retry_task WHERE status IN ('PENDING', 'RUNNING')"


@dataclass(frozen=True)
class Gap:
    began: float
    ended: float

    @property
    def seconds(self) -> float:
        return self.ended - self.began


def longest_gap(moments: Iterable[float], first: float, last: float) -> Gap:
    """In which nothing happened, between two moments."""
    inside = [first, *sorted(at for at in moments if first < at < last), last]
    return max((Gap(a, b) for a, b in pairwise(inside)), key=lambda gap: gap.seconds)


@dataclass(frozen=True)
class Outage:
    """Figures of one way to reach the database. `resumed`: seconds from the first acknowledged write to a task."""

    reach: str
    enqueue: float
    execution: float
    resumed: float


def outages(loads: list[Load], first: float, last: float) -> list[Outage]:
    writes = [longest_gap([line.at for line in load.acknowledged()], first, last) for load in loads]
    accepted = min(gap.ended for gap in writes)
    found = []
    for load, enqueued in zip(loads, writes, strict=True):
        ran = longest_gap([line.at for line in load.runs()], first, last)
        late = max(0.0, ran.ended - accepted) if ran.seconds > SHORTEST_GAP else 0.0
        found.append(Outage(load.reach, enqueued.seconds, ran.seconds, late))
    return found


@dataclass(frozen=True)
class Books:
    acknowledged: int
    lost: int
    finished_twice: int
    ran_twice: int
    ran_past_the_lease: int
    """Lines that a host left behind when it had been cut off for longer than a lease."""


def balance(cluster: Cluster, loads: list[Load]) -> Books:
    """Count everything acknowledged so far; nothing may be unfinished by now."""
    told = {line.task_id for load in loads for line in load.acknowledged()}
    with cluster.connect() as connection:
        known = {row[0] for row in connection.execute(KNOWN)}
        [twice] = connection.execute(TWICE).fetchone() or (0,)
    ran = sum(count > 1 for load in loads for count in Counter(line.number for line in load.runs()).values())
    return Books(len(told), len(told - known), twice, ran, sum(len(past_the_lease(load)) for load in loads))


def past_the_lease(load: Load) -> list[float]:
    """When tasks were at work on a host that had been cut off for longer than a lease."""
    moments = [line.at for line in (*load.runs(), *load.ticks())]
    silences = [(began + LEASE + NOTICED_SECONDS, ended) for began, ended in load.host.silences]
    return [at for at in moments if any(began < at < ended for began, ended in silences)]


def is_drained(cluster: Cluster) -> bool:
    with cluster.connect() as connection:
        [left] = connection.execute(UNFINISHED).fetchone() or (1,)
    return left == 0
