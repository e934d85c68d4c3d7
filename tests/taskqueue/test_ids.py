"""Ids are rising, and no two processes make the same."""

from __future__ import annotations

import os
from uuid import UUID

from django_tasks_retry.taskqueue import new_tasks


def ids_of_a_fork(count: int) -> list[UUID]:
    reading, writing = os.pipe()
    if not (child := os.fork()):
        os.write(writing, "\n".join(str(new_tasks.new_id()) for _ in range(count)).encode())
        os._exit(0)
    os.waitpid(child, 0)
    os.close(writing)
    with os.fdopen(reading) as told:
        return [UUID(line) for line in told.read().split()]


def random_parts(made: list[UUID]) -> set[int]:
    return {one.int & (1 << new_tasks.RANDOM_BITS) - 1 for one in made}


def test_a_forked_process_draws_other_numbers_than_its_parent():
    new_tasks.new_id()  # so that there are some that could be inherited
    theirs, ours = ids_of_a_fork(50), [new_tasks.new_id() for _ in range(50)]
    assert not random_parts(theirs) & random_parts(ours)


def test_a_process_that_is_forked_while_an_id_is_made_makes_its_own():
    with new_tasks._lock:
        theirs = ids_of_a_fork(3)
    assert len(set(theirs)) == 3


def test_ids_rise_and_never_repeat():
    made = [new_tasks.new_id() for _ in range(5_000)]
    assert made == sorted(set(made))
    assert len(random_parts(made)) == len(made)
