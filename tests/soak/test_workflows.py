"""The checker of workflows sees what it is there for."""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

import pytest

from tests.soak.workflows import BRANCHES, Parent, complaints

ID = uuid4()
WHOLE = Parent(ID, "flow", "SUCCESS", BRANCHES, 1)


def test_a_workflow_that_went_well_or_was_cancelled_is_no_complaint():
    cancelled = Parent(uuid4(), "branch", "CANCELLED", None, 0, wakes=0, waits=0)
    killed = Parent(uuid4(), "branch", "FAILED", None, 1, wakes=0, waits=0, code="CRASHED")
    assert complaints([WHOLE, cancelled, killed], {ID: BRANCHES}, [ID]) == []


@pytest.mark.parametrize(
    ("changes", "members", "said"),
    [
        ({"status": "FAILED", "result": None}, BRANCHES, "ended as FAILED"),
        ({"status": "PENDING", "result": None}, BRANCHES, "ended as PENDING"),
        ({"result": BRANCHES - 1}, BRANCHES, "saw 4 of 5 members"),
        ({"name": "branch"}, 4, "the branch"),
        ({"marks": 2}, BRANCHES, "atomic step 2 times"),
        ({"marks": 0}, BRANCHES, "atomic step 0 times"),
        ({"wakes": 2}, BRANCHES, "waited 1 times and was woken 2 times"),
        ({"status": "CANCELLED", "result": None}, BRANCHES - 1, "has 4 members"),
    ],
)
def test_every_way_to_go_wrong_is_told(changes, members, said):
    [complaint] = complaints([replace(WHOLE, **changes)], {ID: members})
    assert said in complaint


def test_a_workflow_with_a_member_too_many_is_told():
    assert any("saw 5 of 6 members" in text for text in complaints([WHOLE], {ID: BRANCHES + 1}))


def test_a_workflow_that_was_acknowledged_and_lost_is_told():
    assert "was acknowledged and is not there" in complaints([], {}, [ID])[0]
