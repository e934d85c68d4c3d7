"""Ids say in which shard a task lives, and sort as before."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry.rules.names import in_shard, shard_of, uuid7
from django_tasks_retry.taskqueue.new_tasks import new_id, new_ids

MOMENTS = st.integers(0, 2**47)
RANDOM = st.integers(0, 2**74 - 1)
NUMBERS = st.integers(0, 1022)


@given(MOMENTS, RANDOM, NUMBERS)
def test_an_id_tells_its_shard_and_still_its_time(milliseconds, random, number):
    before = uuid7(milliseconds, random)
    there = in_shard(before, number)
    assert shard_of(there) == number
    assert there.int >> 80 == before.int >> 80
    assert there.version == (8 if number else 7)
    assert there.variant == before.variant


@given(MOMENTS, RANDOM, NUMBERS, NUMBERS)
def test_a_task_that_is_placed_anew_has_the_id_of_its_last_shard(milliseconds, random, first, second):
    task_id = uuid7(milliseconds, random)
    assert shard_of(in_shard(in_shard(task_id, first), second)) == second


def test_ids_of_one_process_rise_in_every_shard():
    ids = [in_shard(each, 5) for each in new_ids(1000)]
    assert ids == sorted(ids)
    assert len(set(ids)) == 1000


def test_an_id_from_before_the_split_means_the_first_shard():
    assert shard_of(new_id()) == 0
