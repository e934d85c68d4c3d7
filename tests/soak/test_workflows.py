"""The checker of workflows sees what it is there for."""

from __future__ import annotations

from uuid import uuid4

import pytest

from tests.soak.workflows import BRANCHES, Flow, complaints

ID = uuid4()
WHOLE = Flow(ID, "SUCCESS", BRANCHES, 1)


def test_a_workflow_that_went_well_or_was_cancelled_is_no_complaint():
    assert complaints([WHOLE, Flow(uuid4(), "CANCELLED", None, 0)], {ID: BRANCHES}) == []


@pytest.mark.parametrize(
    ("flow", "members", "said"),
    [
        (Flow(ID, "FAILED", None, 1), BRANCHES, "ended as FAILED"),
        (Flow(ID, "PENDING", None, 1), BRANCHES, "ended as PENDING"),
        (Flow(ID, "SUCCESS", BRANCHES - 1, 1), BRANCHES, "saw 4 of 5 members"),
        (Flow(ID, "SUCCESS", BRANCHES, 1), BRANCHES + 1, "saw 5 of 6 members"),
        (Flow(ID, "SUCCESS", BRANCHES, 2), BRANCHES, "was done 2 times"),
        (Flow(ID, "SUCCESS", BRANCHES, 0), BRANCHES, "was done 0 times"),
    ],
)
def test_every_way_to_go_wrong_is_told(flow, members, said):
    [complaint] = complaints([flow], {ID: members})
    assert said in complaint
