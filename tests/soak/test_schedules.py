"""The checker of schedules finds each kind of wrong."""

from __future__ import annotations

import pytest

from tests.soak.schedules import Slots


def test_slots_with_a_task_or_a_record_are_right():
    assert Slots(1, 6, [1, 2, 5, 6], [(3, 4)]).complaints() == []


@pytest.mark.parametrize(
    ("slots", "says"),
    [
        (Slots(1, 3, [1, 2, 2, 3], []), "2 has two tasks"),
        (Slots(1, 3, [1, 3], []), "2 has no task"),
        (Slots(1, 3, [1, 2, 3], [(2, 2)]), "2 has a task and is recorded"),
        (Slots(1, 3, [1, 2, 3, 4], []), "4 was never due"),
    ],
)
def test_each_wrong_is_found(slots, says):
    [complaint] = slots.complaints()
    assert says in complaint
