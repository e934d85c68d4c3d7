"""At each statement that a worker sends in its life, something goes wrong: nothing is lost or finished twice.

A life is lived once undisturbed, to count its statements. An ordinary run then disturbs one of them in each way;
`FAULTS=all pytest tests/faults/test_everywhere.py` disturbs every one of them, each in a life of its own.
"""

from __future__ import annotations

import pytest

from django_tasks_retry.models import TaskEvent
from tests.faults.everywhere import (
    ALL,
    DEEDS,
    GREETING,
    LEASE,
    NAMED,
    all_done,
    enqueue_a_life,
    finished_once,
    live,
    slot_is_whole,
)
from tests.faults.marker import showing
from tests.proxy import Cut

SAMPLE = dict(zip(DEEDS, (0.5, 0.3, 0.8, 0.6, 0.5, 0.6, 0.7, 0.8, 0.6, 0.8, 0.6, 0.4, 0.7), strict=True))
counted: list[int] = []


@pytest.fixture
def length(start_behind, proxy) -> int:
    """How many statements a life has."""
    if not counted:
        enqueue_a_life()
        proxy.arm(Cut(nth=10_000))
        assert start_behind("--drain", lease=LEASE).exit_code() == 0
        assert all_done()
        counted.append(len(proxy.statements))
    return counted[0]


def points(length: int, deed: str) -> list[int]:
    return list(range(1, length + 1)) if ALL else [round(length * SAMPLE[deed])]


@pytest.mark.parametrize(
    "name", [showing(name, deed.fault, case=name.replace(" ", "_")) for name, deed in DEEDS.items()]
)
def test_at_any_statement(start_behind, start, server, proxy, effects, length, name):
    deed, reached = DEEDS[name], 0
    for nth in points(length, name):
        server.clean()
        enqueued = enqueue_a_life()
        workers = []
        cut = proxy.arm(deed.at(nth, lambda workers=workers: workers[0], server))
        workers.append(start_behind("--drain", variables=NAMED, lease=LEASE))
        code = live(start, workers[0], deed, cut)
        reached += cut.done.is_set()
        assert finished_once(enqueued), nth
        assert slot_is_whole(), nth
        codes = deed.codes if cut.done.is_set() else (0,)  # not every life has the last statement of the longest
        assert code in codes or GREETING not in workers[0].output, (nth, code)
        assert deed.loses_attempts or not TaskEvent.objects.filter(kind="task.lease_lost").exists(), nth
        assert "Traceback" not in workers[0].output, nth
    print(f"{reached} statements disturbed, of about {length}")  # noqa: T201 - figures for who runs with -rP
    assert reached >= len(points(length, name)) * 0.8, "a life has as many statements as the first"
