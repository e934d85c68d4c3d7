"""Moving keys between shards: one owner at each instant, and unfinished work ends where it is."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from django_tasks_retry.models import Schedule, ShardBucket, Task
from django_tasks_retry.taskqueue import cancel_one, tick
from django_tasks_retry.taskqueue.control import rebalance, set_draining
from django_tasks_retry.taskqueue.control.moving import moves
from django_tasks_retry.taskqueue.shards import BUCKETS, owners
from tests import tasks
from tests.shards.conftest import NAMES, key_of, owner_of

BACKENDS = {"q0": "default", "q1": "default@q1", "q2": "default@q2"}


def counts():
    """Buckets by owner, as each shard has them; all have the same."""
    seen = [Counter(ShardBucket.objects.using(name).values_list("owner", flat=True)) for name in NAMES]
    assert seen[0] == seen[1] == seen[2]
    return seen[0]


@given(st.lists(st.integers(0, 4), min_size=BUCKETS, max_size=BUCKETS), st.sets(st.integers(0, 4), min_size=1))
def test_each_active_shard_gets_its_share_and_no_bucket_moves_in_vain(before, active):
    wanted = moves(before, active)
    after = [wanted.get(bucket, owner) for bucket, owner in enumerate(before)]
    held = Counter(after)
    assert set(after) <= active
    assert max(held.values()) <= -(-BUCKETS // len(active))
    assert all(before[bucket] != to for bucket, to in wanted.items())


def test_a_shard_that_is_drained_gives_its_keys_away_and_takes_nothing(sharded):
    Task.objects.enqueue(tasks.add, (1, 2), unique_key="a")
    set_draining("default@q1", "me", is_draining=True)
    rebalance("default")
    assert counts()[1] == 0
    before = Task.objects.using("q1").count()
    for n in range(30):
        Task.objects.enqueue(tasks.add, (1, 2), unique_key=f"k{n}" if n % 2 else None)
    assert Task.objects.using("q1").count() == before


def test_a_shard_that_is_taken_back_gets_its_share(sharded):
    for is_draining in (True, False):
        set_draining("default@q2", "me", is_draining=is_draining)
        rebalance("default")
    assert sorted(counts().values())[0] >= BUCKETS // 3 - 1


def test_a_key_with_unfinished_work_moves_when_that_has_ended(sharded):
    key = key_of("q1", queue="default")
    task = Task.objects.enqueue(tasks.add, (1, 2), unique_key=key)
    set_draining("default@q1", "me", is_draining=True)
    assert rebalance("default")[1] == 1
    assert owner_of(f"default:{key}") == "q1"
    assert Task.objects.enqueue(tasks.add, (1, 2), unique_key=key).pk == task.pk
    cancel_one(task)
    assert rebalance("default") == (1, 0)
    assert Task.objects.enqueue(tasks.add, (1, 2), unique_key=key).backend != "default@q1"


def test_a_process_with_an_old_map_is_led_to_the_new_owner(sharded):
    key = key_of("q1", queue="default")
    old = owners.known_owners("default")
    rows = list(old.rows)
    set_draining("default@q1", "me", is_draining=True)
    rebalance("default")
    old.rows[:] = rows
    task = Task.objects.enqueue(tasks.add, (1, 2), unique_key=key)
    assert owner_of(f"default:{key}") == next(name for name in NAMES if BACKENDS[name] == task.backend) != "q1"


def test_a_shard_that_missed_the_move_is_told_by_the_next_call(sharded):
    key = key_of("q1", queue="default")
    set_draining("default@q1", "me", is_draining=True)
    rebalance("default")
    bucket = owners.hashed(f"default:{key}")
    to = ShardBucket.objects.using("q1").get(bucket=bucket).owner
    # As if the mover had died after the owner's commit.
    ShardBucket.objects.using(NAMES[to]).filter(bucket=bucket).update(owner=1, version=0)
    task = Task.objects.enqueue(tasks.add, (1, 2), unique_key=key)
    assert Task.objects.using(NAMES[to]).filter(pk=task.pk).exists()


def test_a_schedule_goes_with_its_bucket_and_fires_each_slot_once(sharded):
    name = key_of("q1")
    Schedule.objects.create(name=name, task=tasks.add, args=[1, 2], every=timedelta(hours=1))
    planned = Schedule.objects.using("q1").get().next_at
    set_draining("default@q1", "me", is_draining=True)
    rebalance("default")
    [there] = [each for each in NAMES if Schedule.objects.using(each).exists()]
    assert there == owner_of(name) != "q1"
    moved = Schedule.objects.using(there).get()
    assert (moved.next_at, moved.paused_at, BACKENDS[there]) == (planned, None, moved.backend)
    Schedule.objects.using(there).update(next_at=planned - timedelta(hours=1))
    assert tick(backend=moved.backend).enqueued == 1
    assert all(tick(backend=each).enqueued == 0 for each in BACKENDS.values())
