"""A claim from lanes reads what it takes, however many lanes there are and however many tasks wait in one of them."""

from __future__ import annotations

import pytest

from django_tasks_retry import taskqueue
from django_tasks_retry.taskqueue.lanes import create_limits
from tests import tasks
from tests.plans import crowds
from tests.plans.crowds import USING
from tests.plans.explain import Plan, explained
from tests.plans.test_plans import named
from tests.router import CurrentDatabase

pytestmark = pytest.mark.django_db(databases=["default", USING])
BATCH = 10
PAGES_A_HOP = 6
"""Of an index of three levels, and the row; the same for a hundred lanes and for twenty thousand."""
IN_LANES = """
UPDATE django_tasks_retry_task SET lane =
    'tenant-' || least({lanes}, 65536 * get_byte(uuid_send(id), 13)
        + 256 * get_byte(uuid_send(id), 14) + get_byte(uuid_send(id), 15))
"""


@pytest.fixture(params=[100, 20_000], ids=["a hundred lanes", "twenty thousand lanes"])
def lanes(request):
    return request.param


@pytest.fixture(params=["analysed", "never analysed"])
def many_lanes(lanes, request, monkeypatch):
    """One task in each of so many lanes; and one lane with a crowd."""
    monkeypatch.setattr(CurrentDatabase, "current", USING)
    crowds.empty()  # and new files: what other tests undid would be read, too
    crowds.load("PENDING", count=lanes + 20_000)
    crowds.guard("DISABLE")
    crowds.execute(IN_LANES.format(lanes=lanes))
    crowds.guard("ENABLE")
    if request.param == "analysed":
        crowds.analyze()


def claimed(memory: taskqueue.ClaimMemory) -> list[Plan]:
    with explained(USING) as plans:
        assert len(taskqueue.claim("worker/1", limit=BATCH, memory=memory)) == BATCH
    return plans


@pytest.mark.usefixtures("many_lanes")
def test_a_look_hops_over_so_many_lanes_and_a_claim_reads_what_it_takes():
    memory = taskqueue.ClaimMemory()
    plans = claimed(memory)
    look, taken = named(plans, "keyed lanes"), named(plans, "claim keyed")
    assert look.rows_read() <= 4 * memory.rotation.hops
    assert look.buffers() <= 4 * memory.rotation.hops * PAGES_A_HOP
    assert taken.rows_read() <= 2 * BATCH + memory.rotation.hops
    assert not look.walks("django_tasks_retry_task")
    assert not taken.walks("django_tasks_retry_task")


@pytest.mark.usefixtures("many_lanes")
def test_a_look_from_a_cursor_in_the_middle_costs_no_more():
    memory = taskqueue.ClaimMemory()
    memory.rotation.cursors["default", 0] = "tenant-5"
    looks = [plan for plan in claimed(memory) if plan.name == "Keyed lanes"]
    assert 1 <= len(looks) <= 2, "a second one where the cursor came round"
    assert all(look.buffers() <= 4 * memory.rotation.hops * PAGES_A_HOP for look in looks)


@pytest.mark.usefixtures("many_lanes")
def test_permits_are_counted_and_claimed_for_in_the_index_of_the_lanes_that_are_held(lanes):
    create_limits([f"tenant-{n}" for n in range(lanes + 1)], USING)
    held = taskqueue.ClaimMemory()
    plans = claimed(held)
    taken = [plan for plan in plans if plan.name == "Claim keyed"]
    assert sum(plan.rows_read("django_tasks_retry_lanestate") for plan in taken) <= 2 * held.rotation.hops
    assert sum(plan.buffers() for plan in taken) <= 1000
    [counting] = [plan for plan in plans if plan.name == "Count leases"]
    assert "dtr_begun" in counting.indexes()
    assert "dtr_leases" not in counting.indexes()
    assert counting.rows_read() <= 4 * BATCH
    assert sum(plan.buffers() for plan in plans if plan.name == "Lock limits") <= 1000


@pytest.mark.usefixtures("many_lanes")
def test_tasks_without_a_lane_are_claimed_as_if_there_were_no_lanes():
    taskqueue.enqueue_many(taskqueue.EnqueueOptions(tasks.noop, priority=5) for _ in range(2 * BATCH))
    taken = named(claimed(taskqueue.ClaimMemory()), "claim")
    assert "dtr_lanes" in taken.indexes()
    assert "dtr_keyed_due" not in taken.indexes()
    assert taken.rows_read() <= 3 * BATCH
