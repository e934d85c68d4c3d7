"""A claim from lanes reads what it takes, however many lanes there are and however many tasks wait in one of them."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from tests.plans import crowds
from tests.plans.crowds import USING
from tests.plans.explain import explained
from tests.plans.test_plans import named
from tests.router import CurrentDatabase

pytestmark = pytest.mark.django_db(databases=["default", USING])
LANES, BATCH = 10_000, 10


@pytest.fixture(params=["analysed", "never analysed"])
def many_lanes(request, monkeypatch):
    """One task in each of many lanes; and one lane with as many again."""
    monkeypatch.setattr(CurrentDatabase, "current", USING)
    crowds.load("PENDING", count=2 * LANES)
    crowds.guard("DISABLE")
    crowds.execute(
        "UPDATE django_tasks_retry_task SET lane = CASE WHEN kwargs <> '{}' THEN '' ELSE "
        f"'tenant-' || least({LANES}, (get_byte(uuid_send(id), 15) + 256 * get_byte(uuid_send(id), 14))) END"
    )
    crowds.guard("ENABLE")
    if request.param == "analysed":
        crowds.analyze()


@pytest.mark.usefixtures("many_lanes")
def test_a_look_hops_over_so_many_lanes_and_a_claim_reads_what_it_takes():
    lanes = taskqueue.Lanes()
    with explained(USING) as plans:
        assert len(taskqueue.claim("worker/1", limit=BATCH, lanes=lanes)) == BATCH
    look, taken = named(plans, "keyed lanes"), named(plans, "claim")
    assert look.rows_read() <= 4 * lanes.hops
    assert taken.rows_read() <= 2 * BATCH + lanes.hops
    assert not look.walks("django_tasks_retry_task")
    assert not taken.walks("django_tasks_retry_task")
